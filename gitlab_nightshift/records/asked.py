"""A task as a person writes it in a comment or a chat: words, and flags on the first line.

    /nightshift round prices to whole cents --test unit --dry-run

``--test`` takes the words up to the next flag; a lone ``--`` ends all flags.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.errors import NightshiftError, config_error

PROVIDERS = ("auto", "claude_code", "codex", "patch")
FLAGS = ("--provider", "--model", "--dry-run", "--test")
LONGEST_TASK = 20_000
LONGEST_NAME = 200
MOST_ARGUMENTS = 100
_LIKENESS = 0.7
BEADS = ("ANALYZE", "IMPLEMENT", "VERIFY", "MR")


@dataclass(frozen=True)
class Asked:
    """What somebody asks for; "" stands for what the settings say.

    ``test_id`` names a test of ``policy.test_commands``, ``test_args`` its further arguments: both
    are words of the person and are judged where the test is run.
    """

    task: str
    provider: str = ""
    model: str = ""
    dry_run: bool = False
    test_id: str = ""
    test_args: tuple[str, ...] = ()


def read_asked(text: str) -> Asked:
    """Words and flags told apart. Raises ``E_CONFIG`` for a flag that is misspelt or incomplete,
    and for a text without a task."""
    first, _, rest = text.strip().partition("\n")
    words, flags = _sorted_out(first.split())
    task = "\n".join(part for part in (" ".join(words), rest.strip()) if part)
    test = flags.get("--test", [])
    return checked(
        Asked(
            task=task,
            provider="".join(flags.get("--provider", [])),
            model="".join(flags.get("--model", [])),
            dry_run="--dry-run" in flags,
            test_id="".join(test[:1]),
            test_args=tuple(test[1:]),
        )
    )


def checked(asked: Asked) -> Asked:
    """The same, where it can be passed on. Raises ``E_CONFIG`` where it cannot."""
    if not asked.task:
        raise config_error("there is no task: say in words what is to be done")
    if "\0" in asked.task or len(asked.task) > LONGEST_TASK:
        raise config_error(f"the task has a NUL or more than {LONGEST_TASK} characters")
    if asked.provider not in ("", *PROVIDERS):
        raise config_error(f"--provider: one of {', '.join(PROVIDERS)} is expected")
    if len(asked.test_args) > MOST_ARGUMENTS:
        raise config_error(f"--test: at most {MOST_ARGUMENTS} arguments are taken")
    for word in (asked.model, asked.test_id, *asked.test_args):
        if len(word) > LONGEST_NAME or not word.isprintable():
            raise config_error(
                f"--model, --test: words of at most {LONGEST_NAME} visible characters are expected"
            )
    return asked


def pipeline_variables(asked: Asked) -> Mapping[str, str]:
    """The variables of a pipeline that does what is asked, as the CI template reads them."""
    variables = {"NIGHTSHIFT": "true", "NIGHTSHIFT_TASK": asked.task}
    if asked.provider:
        variables["NIGHTSHIFT_AGENT"] = asked.provider
    if asked.model:
        variables |= {f"NIGHTSHIFT_MODELS__{bead}": asked.model for bead in BEADS}
    if asked.dry_run:
        variables["NIGHTSHIFT_DRY_RUN"] = "true"
    if asked.test_id:
        variables["NIGHTSHIFT_TASK_TEST"] = " ".join((asked.test_id, *asked.test_args))
    return variables


def _sorted_out(words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The words of the task, and each flag with its own words."""
    task: list[str] = []
    flags: dict[str, list[str]] = {}
    while words:
        word = words.pop(0)
        if word == "--":
            return [*task, *words], flags
        if word not in FLAGS:
            task.append(_no_flag(word))
            continue
        if word in flags:
            raise config_error(f"{word} is given twice")
        flags[word] = _own_words(word, words)
    return task, flags


def _own_words(flag: str, words: list[str]) -> list[str]:
    """What belongs to a flag, taken off the front of ``words``."""
    if flag == "--dry-run":
        return []
    own: list[str] = []
    while words and words[0] not in FLAGS and words[0] != "--":
        own.append(words.pop(0))
        if flag != "--test":
            break
    if flag == "--test" and words[:1] == ["--"]:
        words.pop(0)
    if not own:
        raise _incomplete(flag)
    return own


def _incomplete(flag: str) -> NightshiftError:
    wants = {"--test": "the id of a test", "--provider": "one of " + ", ".join(PROVIDERS)}
    return config_error(f"{flag}: {wants.get(flag, 'a model id')} is expected behind it")


def _no_flag(word: str) -> str:
    """A word of the task; one that is nearly a flag may be a mistake that costs a real run."""
    name, equals, _ = word.partition("=")
    near = difflib.get_close_matches(name.lower(), FLAGS, 1, _LIKENESS)
    if word.startswith("--") and near:
        why = "write the value behind a space" if equals else f"did you mean {near[0]}?"
        raise config_error(f"{word}: {why} If it belongs to the task, put -- before the task.")
    return word
