"""What the payload narrows, and which agent is chosen by the words of a task."""

import pytest

from gitlab_nightshift.policy.gates import restrict_settings
from gitlab_nightshift.policy.path_patterns import is_in_scope
from gitlab_nightshift.records.delegation_records import Execution, Payload, WorkspaceOptions
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Policy
from gitlab_nightshift.stages.work.delegation.agent_choice import detect_task_kind
from gitlab_nightshift.stages.work.delegation.preparation import narrow_settings, with_installs

PATHS = ("a.py", "lib/a.py", "lib/in/a.py", "lib/in/deep/a.py", "lib/in/a.txt", "lib/inside.py")


def allowed(settings: Settings, subdir: str) -> list[str]:
    payload = Payload("x", workspace=WorkspaceOptions(workspace_subdir=subdir))
    narrowed = narrow_settings(settings, payload, subdir)
    return [path for path in PATHS if is_in_scope(path, narrowed)]


def test_a_folder_narrows_what_the_settings_allow() -> None:
    inner = ["lib/in/a.py", "lib/in/deep/a.py", "lib/in/a.txt"]
    assert allowed(Settings(), "lib/in") == inner
    assert allowed(Settings(paths=["*.py"]), "lib/in") == inner[:2]
    assert allowed(Settings(exclude_paths=["deep/"]), "lib/in") == ["lib/in/a.py", "lib/in/a.txt"]
    assert allowed(Settings(paths=["**"], exclude_paths=["*.txt"]), "lib/in") == inner[:2]
    assert allowed(Settings(paths=["lib/in/deep/"]), "lib/in") == ["lib/in/deep/a.py"]
    assert allowed(Settings(paths=["docs/"]), "lib/in") == []
    assert allowed(Settings(), "") == list(PATHS)


def test_a_folder_is_enforced_whatever_the_flags() -> None:
    loose = Settings(policy=Policy(flags={"outside-paths": "off", "dependency-file": "off"}))
    payload = Payload("x", workspace=WorkspaceOptions(workspace_subdir="lib"))
    flags = narrow_settings(loose, payload, "lib").policy.flags
    held = {"dependency-file": "fail", "tool-settings": "fail"}
    assert flags == {"outside-paths": "fail", **held}
    installing = Payload("x", execution=Execution(dependency_policy="allow_install"))
    assert narrow_settings(Settings(), installing, "").policy.flags == dict.fromkeys(held, "off")


def test_hosts_are_closed_unless_the_payload_requests_a_network() -> None:
    settings = Settings(policy=Policy(egress_hosts=["mirror.example"]))
    assert narrow_settings(settings, Payload("x"), "").policy.egress_hosts == []
    on = Payload("x", execution=Execution(network="on"))
    assert narrow_settings(settings, on, "").policy.egress_hosts == ["mirror.example"]


def test_the_requested_test_is_a_quoted_command() -> None:
    text = 'policy: {test_commands: {unit: {command: [make, a b], args: ["-s", $(x)]}}}'
    settings = load_settings({}, ConfigFile("nightshift.yaml", text))
    execution = Execution(test_command_id="unit", test_args=("$(x)", "-s"))
    narrowed = narrow_settings(settings, Payload("x", execution=execution), "")
    assert narrowed.verify_commands == ["make 'a b' '$(x)' -s"]


@pytest.mark.parametrize("gate", ["auto_allow", "require_approval", "deny"])
def test_production_requires_an_approval_for_open_gates(gate: str) -> None:
    text = f"policy: {{gates: {{write: {gate}, exec: {gate}, network: {gate}}}}}\n"
    restricted = "require_approval" if gate == "auto_allow" else gate
    for profile, expected in {"production": restricted, "development": gate}.items():
        file = ConfigFile("nightshift.yaml", f"{text}profile: {profile}\n")
        gates = restrict_settings(load_settings({}, file)).policy.gates
        assert {gates.write, gates.exec, gates.network} == {expected}


def test_only_listed_paths_are_writable_in_production() -> None:
    def writable(text: str) -> list[str]:
        return restrict_settings(load_settings({}, ConfigFile("f", text))).policy.writable_paths

    assert writable("") == []
    assert writable("profile: development") == ["**"]
    assert writable('policy: {writable_paths: ["**"]}') == ["**"]


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Fix the crash in total()", "bugfix"),
        ("Write a docstring for total()", "docs"),
        ("Cover total() by a test", "tests"),
        ("Rename x to price", "refactor"),
        ("Make total() faster", "performance"),
        ("Close the SQL injection, fix it", "security"),
        ("Add a discount", "feature"),
        ("Prefix every name; suffixes too", "feature"),
    ],
)
def test_the_kind_of_a_task(prompt: str, kind: str) -> None:
    assert detect_task_kind(prompt) == kind


def test_allowed_installations() -> None:
    commands, files = ("git", "npm", "npm test", "npm ci"), ("package-lock.json", "go.mod")
    online = {"network": "on"}

    def told(**keys: str) -> tuple[str, ...]:
        return with_installs(commands, Execution(**keys), files)  # type: ignore[arg-type]

    assert told() == commands
    assert told(dependency_policy="deny_install", **online) == ("git", "npm test")
    bare = with_installs(("git",), Execution(network="on"), files)
    assert bare == ("git", "npm ci")
    execution = Execution(network="on", dependency_policy="allow_install")
    assert with_installs(("git",), execution, files) == ("git", "npm")
