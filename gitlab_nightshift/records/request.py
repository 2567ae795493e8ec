"""A task that a person gives in a comment or a chat: its text, and the request with its comment in
GitLab.

    /nightshift round prices to whole cents --test unit --dry-run

All words are the task, except the flags on the first line. ``--test`` takes all words up to the
next flag; ``--`` ends the flags.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.registry.agent_registry import list_requestable_agents

FLAGS = ("--provider", "--model", "--dry-run", "--test")
LONGEST_TASK, LONGEST_NAME = 20_000, 200
"""Characters of a task, and of a model's or a test's name or argument."""
MOST_ARGUMENTS = 100
# For difflib.get_close_matches: its default, 0.6, would also take --process for --provider.
_LIKENESS = 0.7
BEADS = ("ANALYZE", "IMPLEMENT", "VERIFY", "MR")


@dataclass(frozen=True)
class TaskCommand:
    """A person's task and options; "" stands for the value in the settings.

    ``test_id`` names a test of ``policy.test_commands``; ``test_args`` are its further arguments.
    Both are unchecked until the test is run.
    """

    task: str
    provider: str = ""
    model: str = ""
    dry_run: bool = False
    test_id: str = ""
    test_args: tuple[str, ...] = ()


def parse_task_command(text: str) -> TaskCommand:
    """Parse words and flags. Raises ``E_CONFIG`` for a misspelt or incomplete flag, and for a text
    without a task."""
    first_line, _, more_lines = text.strip().partition("\n")
    words, flags = _split_flags(first_line.split())
    task = "\n".join(filter(None, (" ".join(words), more_lines.strip())))
    test_id, *test_args = flags.get("--test", [""])
    return check_task_command(
        TaskCommand(
            task=task,
            provider=flags.get("--provider", [""])[0],
            model=flags.get("--model", [""])[0],
            dry_run="--dry-run" in flags,
            test_id=test_id,
            test_args=tuple(test_args),
        )
    )


def check_task_command(command: TaskCommand) -> TaskCommand:
    """Return the command if it is valid, else raise ``E_CONFIG``."""
    if not command.task:
        raise build_config_error("there is no task: say in words what to do")
    if "\0" in command.task or len(command.task) > LONGEST_TASK:
        raise build_config_error(f"the task has a NUL or more than {LONGEST_TASK} characters")
    agents = list_requestable_agents()
    if command.provider not in ("", *agents):
        raise build_config_error(f"--provider: one of {', '.join(agents)} is expected")
    if len(command.test_args) > MOST_ARGUMENTS:
        raise build_config_error(f"--test: at most {MOST_ARGUMENTS} arguments are taken")
    for word in (command.model, command.test_id, *command.test_args):
        if len(word) > LONGEST_NAME or not word.isprintable():
            raise build_config_error(
                f"--model, --test: words of at most {LONGEST_NAME} visible characters are expected"
            )
    return command


def build_pipeline_variables(command: TaskCommand) -> Mapping[str, str]:
    """The variables that make a pipeline of the CI template run this command."""
    variables = {"NIGHTSHIFT": "true", "NIGHTSHIFT_TASK": command.task}
    if command.provider:
        variables["NIGHTSHIFT_AGENT"] = command.provider
    if command.model:
        variables |= {f"NIGHTSHIFT_MODELS__{bead}": command.model for bead in BEADS}
    if command.dry_run:
        variables["NIGHTSHIFT_DRY_RUN"] = "true"
    if command.test_id:
        variables["NIGHTSHIFT_TASK_TEST"] = " ".join((command.test_id, *command.test_args))
    return variables


def _split_flags(words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The words of the task, and the arguments of each flag."""
    task: list[str] = []
    flags: dict[str, list[str]] = {}
    while words:
        word = words.pop(0)
        if word == "--":
            return [*task, *words], flags
        if word not in FLAGS:
            task.append(_refuse_misspelt_flag(word))
            continue
        if word in flags:
            raise build_config_error(f"{word} is given twice")
        flags[word] = _take_flag_words(word, words)
    return task, flags


def _take_flag_words(flag: str, words: list[str]) -> list[str]:
    """Remove the arguments of a flag from the front of ``words``, and return them."""
    if flag == "--dry-run":
        return []
    arguments: list[str] = []
    while words and words[0] not in FLAGS and words[0] != "--":
        arguments.append(words.pop(0))
        if flag != "--test":
            break
    # After the arguments of --test, "--" is dropped here: more flags may follow it.
    if flag == "--test" and words[:1] == ["--"]:
        words.pop(0)
    if not arguments:
        raise _build_incomplete_flag_error(flag)
    return arguments


def _build_incomplete_flag_error(flag: str) -> NightshiftError:
    expected = {
        "--test": "the id of a test",
        "--provider": "one of " + ", ".join(list_requestable_agents()),
    }
    return build_config_error(f"{flag}: {expected.get(flag, 'a model id')} is expected after it")


def _refuse_misspelt_flag(word: str) -> str:
    """Return the word, or raise ``E_CONFIG`` if it is almost a flag: a mistyped --dry-run would
    start a real run."""
    # Imported late: every process of a run loads this module.
    import difflib

    name, equals, _ = word.partition("=")
    near = difflib.get_close_matches(name.lower(), FLAGS, 1, _LIKENESS)
    if word.startswith("--") and near:
        why = "write a space before the value." if equals else f"did you mean {near[0]}?"
        raise build_config_error(
            f"{word}: {why} If it belongs to the task, put -- before the task."
        )
    return word


# --- the request, with its place in GitLab --------------------------------------------------------

NoteableKind = Literal["issues", "merge_requests"]
"""What a comment belongs to, as in the paths of GitLab's API."""

UpkeepKind = Literal["", "repair", "review"]
"""What this program does, without being asked, for its open merge requests."""


@dataclass(frozen=True)
class CommentAddress:
    """A comment's address: the number of the issue or merge request, the comment's id (0 for no
    comment), and the id of the comment's thread ("" for unknown)."""

    where: NoteableKind
    iid: int
    note: int
    thread: str = ""


@dataclass(frozen=True)
class DiffSpot:
    """A commented line of a merge request's diff, and the ``first`` and ``last`` line of its hunk,
    as line numbers in the merge request's head commit."""

    path: str
    line: int
    first: int
    last: int


@dataclass(frozen=True)
class TaskRequest:
    """A task from an authorized person, or from this program itself (``upkeep``).

    ``place`` is the comment that asks; ``also`` are more comments to answer. ``context`` is the
    issue's quoted text, as data for the agent; ``author`` is the person's display name, ``url`` the
    comment's web address. ``provider``, ``model`` and ``test`` (a command of
    ``policy.test_commands`` with its arguments) are "" for the settings' choice. ``branch`` and
    ``head`` (its commit) are those of the merge request to work on, "" for a new one;
    ``failed_pipeline`` is the id of a failed pipeline of ``head``, 0 for none. ``suggest``: the
    change is not pushed, but suggested in the thread at ``spot`` (None: outside the diff).
    """

    place: CommentAddress
    task: str
    context: str = ""
    author: str = ""
    url: str = ""
    provider: str = ""
    model: str = ""
    dry_run: bool = False
    test: str = ""
    branch: str = ""
    head: str = ""
    failed_pipeline: int = 0
    also: tuple[CommentAddress, ...] = ()
    upkeep: UpkeepKind = ""
    suggest: bool = False
    spot: DiffSpot | None = None
