"""Programs that not every machine has: what needs one is skipped by its name."""

import functools
import os
import shutil
import subprocess

import pytest

NEEDED = "TESTS_NEED"
"""The variable that names programs whose tests may not be skipped: `.ci/run` installs them."""
_TRIALS = {
    "bwrap": ("--unshare-all", "--dev-bind", "/", "/", "--proc", "/proc", "true"),
    "go": ("version",),
    "openssl": ("version",),
    **dict.fromkeys(("bash", "dash"), ("-c", "true")),
    "busybox": ("true",),
}
"""Of those that know no ``--version``, or say it where they cannot do their work."""


def need_program(*names: str) -> None:
    """Skip a test, or fail it where ``TESTS_NEED`` names one of these, if one does not start."""
    for why in filter(None, map(find_lack, names)):
        needed = os.environ.get(NEEDED, "").split()
        (pytest.fail if set(names) & set(needed) else pytest.skip)(why)


@functools.cache
def find_lack(name: str) -> str:
    """Why this program cannot be used, "" where it can. It is started: what is on PATH may be a
    version manager's, which has nothing to start."""
    if (path := shutil.which(name)) is None:
        return f"{name} is not installed"
    trial = [path, *_TRIALS.get(name, ("--version",))]
    done = subprocess.run(
        trial, stdin=subprocess.DEVNULL, check=False, capture_output=True, text=True
    )
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip().partition("\n")[0]
    return f"{name} does not work here: {said or done.returncode}"
