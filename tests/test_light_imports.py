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
