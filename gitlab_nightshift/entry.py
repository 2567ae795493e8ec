"""``python -I -S entry.py DESCRIPTOR``: the sealed interpreter's first module (see ``sealed.py``).

Standard library only until ``sys.path`` is the installation's.
"""

import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def stop_with(parent: int) -> None:
    """Get SIGTERM when the thread ends that started this process, also if it has already."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


def enter() -> int:
    """Run the command that the descriptor names, with its folders as the import path."""
    with os.fdopen(int(sys.argv[1])) as file:
        data = json.load(file)
    sys.path[:] = [*sys.path, *data["path"]]
    if data["parent"] is not None:
        stop_with(data["parent"])
    try:
        from gitlab_nightshift.cli import run
    except ImportError as error:
        sys.stderr.write(
            f"nightshift: E_CONFIG: {error}, looked for in {', '.join(data['path'])}: install"
            " nightshift and what it needs into one environment\n"
        )
        return 2
    return run(data["arguments"], data["env"])


if __name__ == "__main__":
    sys.exit(enter())
