"""What a module does not load: a process that needs a record or a setting starts with little."""

import subprocess
import sys


def test_settings_that_are_checked_already_load_no_pydantic() -> None:
    """It takes longer to load than the rest of a small command, or of a process of a run."""
    program = (
        "import sys; from gitlab_nightshift.commands import change_check; "
        "from gitlab_nightshift.processes.settings_data import pack_settings, unpack_settings; "
        "from gitlab_nightshift.settings.load import load_settings; "
        "made = load_settings({}).with_agent('codex'); "
        "assert unpack_settings(pack_settings(made)) == made; print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == "False\n"


def test_a_finding_loads_neither_bundles_nor_pydantic() -> None:
    program = (
        "import sys; from gitlab_nightshift.records.verdicts import Finding; heavy = ('pydantic',"
        " 'gitlab_nightshift.records.'); print([n for n in sys.modules if n.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == "['gitlab_nightshift.records.verdicts']\n"


def test_a_change_of_product_code_loads_no_rules_about_tests_and_tools() -> None:
    """They are half of what judging a line takes."""
    program = (
        "import sys; from gitlab_nightshift.settings.model import Settings;"
        "from gitlab_nightshift.verdict.flags import judge;"
        "from gitlab_nightshift.verdict.reviewed_change import Changeset, Context;"
        "from gitlab_nightshift.repository.difference import ChangedFile, Hunk;"
        "file = ChangedFile('a.py', 'a.py', 'M', '100644', '100644', b'a = 1\\n', b'a = 2\\n',"
        " (Hunk(1, 1, 1, 1),), False);"
        "judge(Changeset((file,)), Context(Settings()));"
        "heavy = ('matched_tests', 'assertions', 'looser_settings', 'ci_checks');"
        "print([name for name in sys.modules if name.rpartition('.')[2] in heavy])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == "[]\n"


def test_plan_loads_nothing_that_publishes_or_starts_a_sandbox() -> None:
    """Everything that comes after plan waits for it."""
    program = (
        "import sys; import gitlab_nightshift.processes.plan_process;"
        "heavy = ('publish_stage', 'baseline', 'proof_commands', 'self_confinement', 'pydantic');"
        "print([name for name in sys.modules if name.rpartition('.')[2] in heavy])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == "[]\n"


def test_work_loads_no_proof_before_there_is_a_change() -> None:
    """They are a fifth of it, and it loads beside plan."""
    program = (
        "import sys; import gitlab_nightshift.processes.work_process;"
        "heavy = ('proofs', 'functions', 'flags', 'evidence', 'pydantic');"
        "print([name for name in sys.modules if name.rpartition('.')[2] in heavy])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == "[]\n"
