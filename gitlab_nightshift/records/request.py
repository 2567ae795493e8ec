"""A task that a person gives in a comment or a chat: the text, and the request with its place in
GitLab.

    /nightshift round prices to whole cents --test unit --dry-run

Words are the task, flags are on the first line. ``--test`` takes all words up to the next flag;
``--`` ends the flags.
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
# A ratio of difflib, whose default is 0.6: that would also take --process for --provider.
_LIKENESS = 0.7
BEADS = ("ANALYZE", "IMPLEMENT", "VERIFY", "MR")


@dataclass(frozen=True)
class TaskCommand:
    """A request by a person; "" means the settings' value.

    ``test_id`` names a test of ``policy.test_commands``, ``test_args`` are its further arguments:
    both are unverified until the test is run.
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
    first, _, rest = text.strip().partition("\n")
    words, flags = _split_flags(first.split())
    task = "\n".join(part for part in (" ".join(words), rest.strip()) if part)
    test = flags.get("--test", [])
    return check_task_command(
        TaskCommand(
            task=task,
            provider="".join(flags.get("--provider", [])),
            model="".join(flags.get("--model", [])),
            dry_run="--dry-run" in flags,
            test_id="".join(test[:1]),
            test_args=tuple(test[1:]),
        )
    )


def check_task_command(command: TaskCommand) -> TaskCommand:
    """Return the request if it is valid, else raise ``E_CONFIG``."""
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
    """The variables by which a pipeline of the CI template does what is asked."""
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
    """The words of a flag, removed from the front of ``words``."""
    if flag == "--dry-run":
        return []
    taken: list[str] = []
    while words and words[0] not in FLAGS and words[0] != "--":
        taken.append(words.pop(0))
        if flag != "--test":
            break
    # Here "--" only ends the arguments: flags may follow it, as it does not reach _split_flags.
    if flag == "--test" and words[:1] == ["--"]:
        words.pop(0)
    if not taken:
        raise _build_incomplete_flag_error(flag)
    return taken


def _build_incomplete_flag_error(flag: str) -> NightshiftError:
    expected = {
        "--test": "the id of a test",
        "--provider": "one of " + ", ".join(list_requestable_agents()),
    }
    return build_config_error(f"{flag}: {expected.get(flag, 'a model id')} is expected after it")


def _refuse_misspelt_flag(word: str) -> str:
    """Return the word, or raise ``E_CONFIG`` if it is nearly a flag: such a typo would cost a real
    run."""
    # Imported when needed, as every process of a run loads this module.
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

Where = Literal["issues", "merge_requests"]
"""Where a comment is: in an issue or a merge request, as GitLab's API calls them in its paths."""

UpkeepKind = Literal["", "repair", "review"]
"""What this program does unasked for a merge request that it has opened."""


@dataclass(frozen=True)
class CommentAddress:
    """A comment's address: the number of the issue or merge request, the comment's id (0 for no
    comment), and the id of the comment's thread ("" for unknown)."""

    where: Where
    iid: int
    note: int
    thread: str = ""


@dataclass(frozen=True)
class DiffSpot:
    """A commented line of a merge request's diff, and the ``first`` and ``last`` line of the hunk
    that contains it, all numbered as in the merge request's head commit."""

    path: str
    line: int
    first: int
    last: int


@dataclass(frozen=True)
class TaskRequest:
    """A task by somebody who is allowed to give one, or by this program itself (``upkeep``).

    ``context`` is the quoted text of the issue, as data for the agent. ``author`` is the display
    name of who asks, ``url`` the comment's web address. ``provider``, ``model`` and ``test`` (a
    command of ``policy.test_commands`` with its arguments) are "" for the settings' choice.
    ``branch`` and ``head`` (its commit) are those of the merge request to work on, "" for a new
    one; ``failed_pipeline`` is the id of a failed pipeline of ``head``, 0 for none. ``also`` are
    further comments to answer. ``suggest``: nothing is pushed, the change is suggested in the
    thread at ``spot`` (None for a thread outside the diff).
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
