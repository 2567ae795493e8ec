"""Shared by the commands: adding one to the command line, common options and input, and dropping
the rights that a command does not need."""

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
"""The commands of the command line, or those below one of them."""
Env = Mapping[str, str]
"""The job's environment as data."""
Run = Callable[[argparse.Namespace, Env], int]
LARGEST_INPUT = 4_000_000
"""Bytes of a task, or of blocks for ``execute``."""


def add_command(
    commands: "Commands",
    name: str,
    summary: str,
    run: Run,
    *,
    examples: str = "",
    agents_in_job: bool = False,
) -> argparse.ArgumentParser:
    """Add a command; ``run`` takes the parsed arguments and returns the exit status.

    ``agents_in_job``: agents may run in the command's job, before it or during it, so it warns of
    an import path that they could write. ``examples`` is shown below its options.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=examples,
        formatter_class=build_formatter,
    )
    # build_invocation reads --set and --config, which not every command has.
    parser.set_defaults(run=run, agents_in_job=agents_in_job, set=None, config=None)
    return parser


def build_formatter(prog: str) -> argparse.HelpFormatter:
    """Help as wide as the terminal. By default argparse imports shutil for that, which is slow."""
    try:
        columns = os.get_terminal_size(1).columns
    except OSError:  # no terminal
        columns = 80
    formatter = argparse.RawDescriptionHelpFormatter(prog, width=columns - 2)
    # argparse measures commands without their second indentation, and would wrap the longest, which
    # has 9 characters, after 4 spaces.
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
    """The invocation of a run by these arguments. Raises NightshiftError E_CONFIG."""
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
    """True if stdout shows colours."""
    return sys.stdout.isatty() and not env.get("NO_COLOR")


def check_linux() -> None:
    """Raise E_CONFIG if no agent can run here."""
    # The sandbox needs namespaces or Landlock, and /proc.
    if sys.platform != "linux":
        from gitlab_nightshift.errors import build_config_error

        raise build_config_error("agents run on Linux only; demo, config and check work here")


def read_input(name: str, option: str) -> str:
    """The text of a file, or of stdin for ``-``. Raises NightshiftError, which names ``option``."""
    from gitlab_nightshift.errors import Code, NightshiftError, build_config_error

    # One byte more than is allowed shows that there is more.
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LARGEST_INPUT + 1)
        else:
            with open(name, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
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
    """Write a command's result to stdout. A model may have written it, so a terminal does not get
    its control characters; a pipe gets it unchanged."""
    from gitlab_nightshift.text.printable_text import replace_controls

    sys.stdout.write(replace_controls(text, "?") if sys.stdout.isatty() else text)


def write_note(line: str) -> None:
    """Write a line for a person to stderr; a model may have written a part of it."""
    from gitlab_nightshift.system.retry import write_notice
    from gitlab_nightshift.text.printable_text import replace_controls

    write_notice(replace_controls(line, "?"))


def keep_to_row(
    row: "ProcessRow",
    env: Env,
    checkout: "Path | None" = None,
    output: "Collection[Path]" = (),
    ports: tuple[int, ...] = (),
) -> None:
    """Give up all rights but those of ``row``, on Linux: its repository is ``checkout`` with git's
    folders, its output the folders ``output``, its network that of the row, with
    ``ports`` only TCP to these. Where the kernel has no Landlock, a warning is printed and nothing
    is given up."""
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
