"""Helpers of the commands: registering one, common options, input and output, and dropping the
privileges that a command does not need."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from typing import Any

    from gitlab_nightshift.run_folder import Invocation
    from gitlab_nightshift.sandbox.process_table import ProcessRow

    Commands = argparse._SubParsersAction[Any]
    """Where a module registers its command: at the top level, or below a command such as fleet."""
Env = Mapping[str, str]
"""The job's environment; commands do not read ``os.environ``."""
LARGEST_INPUT = 4_000_000
"""Bytes of a task, or of blocks for ``execute``."""


def add_command(
    commands: "Commands",
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace, Env], int],
    *,
    examples: str = "",
    checks_import_path: bool = False,
) -> argparse.ArgumentParser:
    """Add a command; ``run`` takes the parsed arguments and the environment, and returns the exit
    status. ``examples`` is shown below the options.

    With ``checks_import_path`` the command warns of an import path that agents could write: they
    may run in its job, before or during the command.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=examples,
        formatter_class=build_formatter,
    )
    # build_invocation reads --set and --config, which not every command has.
    parser.set_defaults(run=run, checks_import_path=checks_import_path, set=None, config=None)
    return parser


def build_formatter(prog: str) -> argparse.HelpFormatter:
    """Help as wide as the terminal; argparse's default imports shutil for that, which is slow."""
    try:
        columns = os.get_terminal_size(1).columns
    except OSError:  # no terminal
        columns = 80
    formatter = argparse.RawDescriptionHelpFormatter(prog, width=columns - 2)
    # argparse ignores the indentation of commands when it measures them, and would break the line
    # after the longest name: 9 characters, and 4 spaces.
    formatter._action_max_length = 13
    return formatter


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """``--config`` and ``--set``, for a command that reads the settings."""
    parser.add_argument("--config", metavar="FILE", help="default: nightshift.yaml")
    parser.add_argument(
        "--set",
        action="append",
        metavar="KEY=VALUE",
        help="override a setting, such as models.verify=NAME",
    )


def add_category_option(parser: argparse.ArgumentParser) -> None:
    """``--category``, for a command that plans a night."""
    parser.add_argument("--category", metavar="NAME", help="a category other than today's")


def build_invocation(args: argparse.Namespace, env: Env) -> "Invocation":
    """The arguments and the environment as an Invocation. Raises ``E_CONFIG``."""
    from pathlib import Path

    from gitlab_nightshift.run_folder import Invocation

    overrides = dict(_parse_override(text) for text in args.set or ())
    if getattr(args, "category", None):
        overrides["category"] = args.category
    if getattr(args, "dry_run", False):
        overrides["dry_run"] = "true"
    if getattr(args, "rehearse", False):
        overrides["rehearse"] = "true"
    return Invocation(env, Path.cwd(), args.config, overrides, has_colour(env))


def _parse_override(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        from gitlab_nightshift.errors import build_config_error

        raise build_config_error(f"--set {text}: expected KEY=VALUE")
    return key.strip(), value


def has_colour(env: Env) -> bool:
    """True if stdout is a terminal, and the user has not disabled colours."""
    return sys.stdout.isatty() and not env.get("NO_COLOR")


def require_linux() -> None:
    """Raise ``E_CONFIG`` elsewhere: the sandbox needs namespaces or Landlock, and /proc."""
    if sys.platform != "linux":
        from gitlab_nightshift.errors import build_config_error

        raise build_config_error("agents run on Linux only; demo, config and check work here")


def read_input(path: str, option: str) -> str:
    """The text of a file, or of stdin for ``-``. Raises NightshiftError that names ``option``."""
    from gitlab_nightshift.errors import Code, NightshiftError, build_config_error

    # One byte beyond the limit shows that the input is too large.
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LARGEST_INPUT + 1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                data = file.read(LARGEST_INPUT + 1)
    except OSError as error:
        raise build_config_error(f"{option}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_INPUT:
        raise NightshiftError(Code.PARSE_ERROR, f"{option}: larger than {LARGEST_INPUT} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NightshiftError(Code.PARSE_ERROR, f"{option}: not UTF-8 text") from None


def write_result(text: str) -> None:
    """Write a command's result to stdout, to a terminal without control characters: a model may
    have written it."""
    from gitlab_nightshift.text.printable_text import replace_controls

    sys.stdout.write(replace_controls(text, "?") if sys.stdout.isatty() else text)


def write_note(line: str) -> None:
    """Write a line to stderr without control characters: a model may have written a part of it."""
    from gitlab_nightshift.system.retry import write_notice
    from gitlab_nightshift.text.printable_text import replace_controls

    write_notice(replace_controls(line, "?"))


def drop_privileges(
    row: "ProcessRow",
    env: Env,
    checkout: "Path | None" = None,
    output: "Collection[Path]" = (),
    ports: tuple[int, ...] = (),
) -> None:
    """Restrict this process, on Linux, to the rights of its ``row`` in the process table; print a
    warning if the kernel refuses.

    The row's repository is ``checkout`` with git's folders, its output the folders ``output``. With
    ``ports``, TCP goes to these ports only.
    """
    if sys.platform != "linux":
        return
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from gitlab_nightshift.repository.git_formats import list_git_folders
    from gitlab_nightshift.sandbox.privilege_drop import restrict_to
    from gitlab_nightshift.sandbox.process_places import find_rights
    from gitlab_nightshift.system.file_names import choose_short_parent

    repository = (checkout, *list_git_folders(checkout)) if checkout else ()
    temporary = Path(tempfile.gettempdir())
    places = {
        "repository": list(map(str, repository)),
        "temporary": [str(temporary), str(choose_short_parent(temporary))],
        "output": list(map(str, output)),
    }
    try:
        restrict_to(replace(find_rights(row, places, env), ports=ports))
    except OSError as error:
        from gitlab_nightshift.system.retry import write_notice

        write_notice(f"warning: this process is not confined: {error.strerror}")
