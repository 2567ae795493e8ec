"""Turns a command's error into an exit status (``errors.py: Code``) and a line for the user."""

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from gitlab_nightshift.errors import Code, Interruption, NightshiftError, is_disk_full


def run_guarded(action: Callable[[], int], env: Mapping[str, str]) -> int:
    """Run ``action`` and return its exit status. An error is printed on stderr, and its exit status
    returned. ``env`` has the secrets to redact from a traceback."""
    from gitlab_nightshift.system.signals import enable_cancellation

    try:
        with enable_cancellation():
            status = action()
            try:
                sys.stdout.flush()
            except OSError as error:  # uncaught, the interpreter would print it at exit
                return report_lost_output(error) or status
            return status
    except NightshiftError as error:
        for line in error.lines:
            print(f"nightshift: {error.code}: {line}", file=sys.stderr)
        return error.exit_status
    except Interruption as stop:
        print(f"nightshift: {stop.code}: stopped by a signal", file=sys.stderr)
        return stop.code.exit_status
    except Exception as error:
        if isinstance(error, BrokenPipeError) or (
            isinstance(error, OSError) and is_disk_full(error)
        ):
            return report_lost_output(error)
        return _report_defect(env)


def report_lost_output(error: OSError) -> int:
    """Drop output that cannot be written, and return the exit status: 0 if the reader of stdout,
    such as `head`, has ended. Otherwise report a full disk on stderr."""
    try:
        sys.stdout.flush()
    except OSError:
        # The interpreter flushes again at exit: that would fail with status 120 (sys.exit).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    text = "no space left on a disk: free some (for TMPDIR or the checkout)"
    print(f"nightshift: {Code.CONFIG}: {text}", file=sys.stderr)
    return Code.CONFIG.exit_status


def _report_defect(env: Mapping[str, str]) -> int:
    """Report a bug in this program: write the traceback into a file, and name it on stderr."""
    import tempfile
    import traceback

    folder = Path("nightshift/logs")
    if Path.cwd() != Path("/"):  # a stage, which has no folder for it
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder.parent / ".gitignore").open("x") as gitignore:  # as in a run's results
                gitignore.write("*\n")
    is_writable = folder.is_dir() and os.access(folder, os.W_OK)
    with tempfile.NamedTemporaryFile(
        "w",
        encoding="utf-8",
        errors="backslashreplace",  # an exception may quote an agent's text with a lone surrogate
        prefix="traceback-",
        suffix=".txt",
        dir=folder if is_writable else None,
        delete=False,
    ) as file:
        file.write(_redact_text(traceback.format_exc(), env))
    kind = type(sys.exception()).__name__
    text = (
        f"nightshift: {Code.INTERNAL}: a defect of nightshift ({kind}); please report {file.name}"
    )
    print(text, file=sys.stderr)
    return Code.INTERNAL.exit_status


def _redact_text(text: str, env: Mapping[str, str]) -> str:
    try:
        from gitlab_nightshift.job.job_secrets import read_secrets
        from gitlab_nightshift.redaction.redactor import Redactor
    except Exception as error:  # a broken installation
        return f"{type(error).__name__} while redacting this traceback, so it is left out\n"
    return Redactor(read_secrets(env).values)(text)
