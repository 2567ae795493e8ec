"""What a module does not load: a process that needs a record or a setting starts with little."""

import os
import subprocess
import sys
from pathlib import Path

import gitlab_nightshift

PACKAGE = Path(gitlab_nightshift.__file__).parent
NAMES = "\nimport sys; print(*sys.modules)"


def assert_light(source: str, *heavy: str) -> None:
    """A new Python that runs this source loads none of our heavy modules, and no pydantic."""
    command = [sys.executable, "-P", "-c", source + NAMES]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    loaded = set(done.stdout.split())
    assert "gitlab_nightshift" in loaded
    for name in heavy:
        path = PACKAGE / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"{name} has another name now"
    ours = {f"gitlab_nightshift.{name}" for name in heavy}
    assert not loaded & {"pydantic", *ours}


def test_settings_that_are_checked_already_load_no_pydantic() -> None:
    """It takes longer to load than the rest of a small command, or of a process of a run."""
    assert_light(
        "from gitlab_nightshift.commands import change_check\n"
        "from gitlab_nightshift.records.codec import decode_record, encode_record\n"
        "from gitlab_nightshift.settings.load import load_settings\n"
        "from gitlab_nightshift.settings.model import Settings\n"
        "made = load_settings({}).with_agent('codex')\n"
        "assert decode_record(Settings, encode_record(made)) == made"
    )


def test_a_finding_loads_no_other_records() -> None:
    others = [f"records.{path.stem}" for path in (PACKAGE / "records").glob("[!_]*.py")]
    others.remove("records.verdicts")
    assert_light("from gitlab_nightshift.records.verdicts import Finding", *others)


def test_a_change_of_product_code_loads_no_rules_about_tests() -> None:
    """They are half of what judging a line takes."""
    assert_light(
        "from gitlab_nightshift.settings.model import Settings\n"
        "from gitlab_nightshift.proof.reading import find_red_flags\n"
        "from gitlab_nightshift.proof.reviewed_change import Changeset, Context\n"
        "from gitlab_nightshift.repository.difference import ChangedFile, Hunk\n"
        "file = ChangedFile('a.py', 'a.py', 'M', '100644', '100644', b'a = 1\\n', b'a = 2\\n',"
        " (Hunk(1, 1, 1, 1),), False)\n"
        "find_red_flags(Changeset((file,)), Context(Settings()))",
        "proof.reading.matched_tests",
        "proof.syntax.assertions",
    )


def test_check_of_a_line_loads_no_parser_redactor_or_randomness(tmp_path: Path) -> None:
    """Each is a hundredth of what ``check`` takes, and few changes need one."""
    change_one_line(tmp_path)
    code = "import os; from gitlab_nightshift.cli import run; run(['check'], os.environ)"
    command = [sys.executable, "-P", "-c", code + NAMES]
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    names = done.stdout.splitlines()[-1].split()
    assert "gitlab_nightshift.proof.reading.dangerous" in names
    loaded = {name.removeprefix("gitlab_nightshift.") for name in names}
    needless = {"secrets", "hmac", "yaml", "pydantic", "gitlab", "multiprocessing", "logging"}
    ours = {"policy.settings_parser", "redaction.redactor"}
    ours |= {
        "sandbox.launch",
        "records.events",
        "gateway.gateway_config",
        "proof.syntax.assertions",
    }
    assert not loaded & (needless | ours)
    for name in ours:
        assert (PACKAGE / f"{name.replace('.', '/')}.py").is_file(), f"{name} has another name now"


def change_one_line(folder: Path) -> None:
    """A repository whose working tree differs from its commit in one line."""
    (folder / "shop.py").write_text("def add(a, b):\n    return a + b\n")
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "shop")):
        subprocess.run([*git, *arguments], cwd=folder, check=True)
    (folder / "shop.py").write_text("def add(a, b):\n    return b + a\n")


def test_plan_loads_nothing_that_publishes_or_starts_a_sandbox() -> None:
    """Everything that comes after plan waits for it."""
    assert_light(
        "import gitlab_nightshift.run.plan_process",
        "stages.publish.publish_stage",
        "stages.work.baseline",
        "proof.proof_commands",
        "sandbox.self_confinement",
    )


def test_work_loads_no_proof_before_there_is_a_change() -> None:
    """They are a fifth of it, and it loads beside plan."""
    assert_light(
        "import gitlab_nightshift.stages.work.work_process",
        "stages.work.proofs",
        "proof.syntax.definitions",
        "proof.reading",
        "proof.evidence",
    )


def test_the_redactor_loads_no_records_of_a_delegation_and_no_page() -> None:
    """It starts first, and the job log waits for it."""
    assert_light(
        "import gitlab_nightshift.run.redactor_process",
        "records.delegation_records",
        "records.fleet_records",
        "settings.model",
        "stages.report.page",
    )


def test_what_reads_a_bundle_loads_no_settings() -> None:
    assert_light(
        "import gitlab_nightshift.repository.bundle_reader", "settings.model", "job.job_secrets"
    )


def test_the_report_loads_no_records_of_other_commands() -> None:
    assert_light(
        "import gitlab_nightshift.stages.report.report_process",
        "records.delegation_records",
        "records.fleet_records",
        "settings.model",
    )
