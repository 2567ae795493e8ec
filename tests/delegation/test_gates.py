"""Who may delegate, from where the policy comes, and what production asks for."""

from pathlib import Path

import pytest

from gitlab_nightshift.policy.write_gate import list_gated_files
from gitlab_nightshift.records.products import ChangeSize
from gitlab_nightshift.stages.work import proofs
from tests.support.agent import append, plays, write
from tests.support.delegation import DEVELOPMENT, POLICY, Delegations, delegations
from tests.support.shop import GOOD
from tests.support.world import commit, git

NETWORK = POLICY + '  egress_hosts: ["mirror.example"]\n  gates: {network: GATE}\n'
ON = {"network": "on"}
JOB = {"GITLAB_CI": "true", "CI_PIPELINE_ID": "7", "CI_DEFAULT_BRANCH": "main"}


STARTS = (
    ("web", "olga", None),
    ("api", "olga", "E_APPROVAL_REQUIRED"),
    ("api", "planner", None),
    ("schedule", "olga", "E_APPROVAL_REQUIRED"),
    ("web", "", "E_APPROVAL_REQUIRED"),
)


def test_who_starts_a_job(tmp_path: Path) -> None:
    """The variable by which an orchestrator names itself is not believed in a job."""
    with delegations(tmp_path) as context:
        found = []
        for source, user, _ in STARTS:
            job = {**JOB, "CI_PIPELINE_SOURCE": source, "GITLAB_USER_LOGIN": user}
            found.append((source, user, context.prepared(context.payload(), **job).code))
        assert found == list(STARTS)


def test_in_a_job_variables_are_no_policy(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        for name, value in {
            "NIGHTSHIFT_PROFILE": "development",
            "NIGHTSHIFT_POLICY__ORCHESTRATORS": "mallory",
            "NIGHTSHIFT_POLICY": '{"orchestrators": ["mallory"]}',
        }.items():
            job = {**JOB, "GITLAB_USER_LOGIN": "mallory", "CI_PIPELINE_SOURCE": "api", name: value}
            done = context.called(context.payload(), **job)
            done.failed("E_CONFIG", 2, f"{name}: ", "from the default branch only")


def test_the_policy_is_the_default_branchs(tmp_path: Path) -> None:
    """A branch that a caller names may say what it likes."""
    with delegations(tmp_path) as context:
        git(context.repository, "checkout", "-q", "-b", "loose")
        loose = f"{DEVELOPMENT}isolation: none\n".replace("planner", "mallory")
        (context.repository / "nightshift.yaml").write_text(loose)
        commit(context.repository, "Loosen the policy")
        git(context.repository, "checkout", "-q", "main")
        context.env["NIGHTSHIFT_ORCHESTRATOR"] = "mallory"
        context.prepare(workspace={"base_ref": "loose"}).failed("E_APPROVAL_REQUIRED", 4)
        git(context.repository, "checkout", "-q", "loose")
        git(context.repository, "update-ref", "refs/remotes/origin/main", "main")
        head = ("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
        git(context.repository, *head)
        context.ask().failed("E_APPROVAL_REQUIRED", 4)


def test_a_default_branch_that_is_not_here(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        job = {**JOB, "CI_DEFAULT_BRANCH": "trunk", "CI_COMMIT_REF_NAME": "main"}
        done = context.called(context.payload(), **job)
        done.failed("E_CONFIG", 2, "the policy is read from trunk, which is not in")


def test_the_network_gate(tmp_path: Path) -> None:
    """In development an approval is not asked for, but what is denied stays so."""
    development = f"{NETWORK}profile: development\n"
    approved = ["gate_required", "gate_approved"]
    with delegations(tmp_path) as context:
        for gate, config, code, events in (
            ("deny", NETWORK, "E_POLICY_DENY", ["gate_denied"]),
            ("require_approval", NETWORK, None, approved),
            ("auto_allow", NETWORK, None, approved),
            ("deny", development, "E_POLICY_DENY", ["gate_denied"]),
            ("auto_allow", development, None, ["gate_approved"]),
        ):
            context.configure(config.replace("GATE", gate))
            made = context.prepare(execution=ON)
            assert made.code == code, (gate, config, made)
            assert made.told("network") == events, (gate, config)


def test_the_network_is_open_where_it_is_asked_for(tmp_path: Path) -> None:
    """That it is closed elsewhere, ``named`` in test_success.py shows."""
    config = NETWORK.replace("GATE", "require_approval")
    with delegations(tmp_path, config=config) as context:
        assert context.ask(execution=ON).result["ok"] is True
        assert ["HTTPS_PROXY" in bead.env for bead in context.agent.seen] == [True, True]


def test_without_a_list_nothing_is_writable_in_production(tmp_path: Path) -> None:
    config = "policy: {orchestrators: [planner]}\n"
    with delegations(tmp_path, config=config) as context:
        settings = context.prepare().settings
        [gated] = list_gated_files(ChangeSize(("docs/new.md",), 1, 0), settings, "")
        assert gated.decision == "require_approval"
        assert gated.why == "is outside policy.writable_paths"


def test_sensitive_files_of_a_development(tmp_path: Path) -> None:
    """The change is allowed, and reported; in production it is refused (test_codes.py)."""
    config = DEVELOPMENT.replace('"*.py"', '"**"')
    script = plays(GOOD, {"implement": [write("Dockerfile", "FROM scratch\n")]})
    with delegations(tmp_path, script, config=config) as context:
        done = context.ask()
        assert done.result["ok"] is True, done
        told = [e["event"] for e in context.events if e.get("gate") == "write"]
        assert told == ["gate_approved"]


def test_settings_of_tools_change_as_dependency_files_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the process that ran the agent has seen of them."""
    config = NETWORK.replace("GATE", "auto_allow").replace('"*.py"', '"**"')
    script = plays(GOOD, {"implement": [append("Makefile", "lint:\n\tpython3 -m shop\n")]})
    with delegations(tmp_path, script, config=config + "profile: development\n") as context:
        done = context.ask()
        done.failed("E_POLICY_DENY", 3, "Makefile contains tool settings (lint:)")
        context.assert_untouched()
        done = context.ask(execution={"dependency_policy": "allow_install"})
        assert done.result["ok"] is True, done
        monkeypatch.setattr(proofs, "find_changed_settings", lambda _change: {})
        done = context.ask()
        done.failed("E_POLICY_DENY", 3, "not published: Makefile contains tool settings (lint:)")


def test_a_gate_that_denies_writing_and_a_folder_that_is_not_named(tmp_path: Path) -> None:
    """Two reasons, each told, for which nothing of a change is kept."""
    config = POLICY + "  gates: {write: deny}\n"
    script = plays(GOOD, {"implement": [append("notes.txt", "x\n"), append("shop.py", "\n")]})
    with delegations(tmp_path, script, config=config) as context:
        done = context.ask(workspace={"workspace_subdir": "./docs"})
        done.failed("E_POLICY_DENY", 3, "notes.txt is outside policy.writable_paths")
        assert "shop.py is outside the paths" in done.result["error"]
        context.assert_untouched()


def test_the_policy_chooses_the_agent(tmp_path: Path) -> None:
    config = POLICY + "  providers: {docs: codex, default: claude_code}\n"
    with delegations(tmp_path, config=config) as context:
        made = context.prepare(task_prompt="Write a docstring.", provider="claude_code")
        made.failed("E_POLICY_DENY", 3, "docs tasks are done by codex, not by claude_code")
        made = context.prepare(task_prompt="Write a docstring.")
        made.failed("E_PROVIDER_UNAVAILABLE", 5, "codex: ")
        assert context.prepare(task_prompt="Round up.").used == "claude_code"


def add_codex(context: Delegations) -> None:
    program = context.agent.bin / "codex"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    context.env["OPENAI_API_KEY"] = "sk-test-AnotherKeyOfTheNight04"


def test_the_cheapest_agent_and_none_without_a_price(tmp_path: Path) -> None:
    config = POLICY + "  providers: {docs: cheapest}\n"
    with delegations(tmp_path, config=config) as context:
        add_codex(context)
        price = '{"claude-opus-4-6": {"input": %s, "output": %s}}'
        for usd, agent in (("0.001", "claude_code"), ("1000", "codex")):
            context.env["NIGHTSHIFT_PRICES"] = price % (usd, usd)
            assert context.prepare(task_prompt="Write a docstring.").used == agent
        del context.env["NIGHTSHIFT_PRICES"]
        context.env["NIGHTSHIFT_MODELS__IMPLEMENT"] = "nobody-knows-its-price"
        context.prepare(task_prompt="Round up.").failed(
            "E_PROVIDER_UNAVAILABLE", 5, "codex: prices: none is known for", "claude_code: "
        )
        made = context.prepare(task_prompt="Round up.", provider="claude_code")
        assert made.code is None, "max_tokens bounds it, and somebody has named it"


def test_without_a_rule_codex_comes_first(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        add_codex(context)
        assert context.prepare().used == "codex"
        del context.env["OPENAI_API_KEY"]
        assert context.prepare().used == "claude_code"
