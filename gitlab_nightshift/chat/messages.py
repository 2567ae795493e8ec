"""The service's answers and messages in Discord's JSON. Text from elsewhere is made harmless: it
pings nobody, links nowhere, hides nothing."""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.chat.pipeline_runs import EndedRun
from gitlab_nightshift.gitlab.pipelines import Pipeline
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.request import TaskCommand
from gitlab_nightshift.records.usage import Bound, format_usd
from gitlab_nightshift.registry.agent_registry import list_requestable_agents
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import count_words, remove_hidden

Json = dict[str, Any]
Redact = Callable[[str], str]

NO_MENTIONS: Json = {"parse": []}
"""Pings nobody, whatever a text says."""
# Types of interaction responses (Discord's API reference, "Interaction Callback Type"): PONG; a new
# message, or another text for the message with the button; and the same two deferred: then Discord
# shows that an answer is being prepared, until it is edited.
PONG: Json = {"type": 1}
_MESSAGE, _UPDATE = 4, 7
DEFERRED: Json = {"type": 5}
DEFERRED_UPDATE: Json = {"type": 6}
MOST_FILES, MOST_COMMANDS = 10, 5
LONGEST_PATCH = 900
"""Characters; the whole patch is in the artifacts."""
# Discord's numbers (its API documentation): the message flag EPHEMERAL, the component types action
# row and button, the button styles success and danger, the option types string and boolean, the
# context of a command in a server.
_EPHEMERAL = 1 << 6
_ROW, _BUTTON, _SUCCESS, _DANGER = 1, 2, 3, 4
_STRING, _BOOLEAN = 3, 5
_GUILD = 0
_BUTTON_ID = compile_lazily(r"ns:(approve|refuse):([0-9]{1,19}):([0-9a-f]{32})")

HEADLINES = {
    Outcome.MR_CREATED: "Done: a merge request is open",
    Outcome.NO_IMPROVEMENT: "Nothing was changed",
    Outcome.MR_READY: "Verified, and not published (dry run)",
    Outcome.SKIPPED: "Skipped",
    Outcome.APPROVAL_REQUIRED: "A gate asks for an approval",
    Outcome.FAILED: "Failed",
}


LONGEST_MESSAGE = 1900
"""Characters of a message, as Discord counts them; it takes 2000."""
_CUT = "…"
CUT_NOTE = "The rest is in the artifacts: bundle/change.patch"
_ZERO_WIDTH = "\N{ZERO WIDTH SPACE}"
_MARKDOWN = compile_lazily(r"[\\*_~`|<>\[\]()#]")


def build_private_answer(text: str) -> Json:
    """An answer that only the person sees."""
    data = {"content": format_message([text]), "flags": _EPHEMERAL, "allowed_mentions": NO_MENTIONS}
    return {"type": _MESSAGE, "data": data}


def build_content(lines: list[str], components: list[Json] | None = None) -> Json:
    """A message; an edit removes its old buttons unless they are given again."""
    return {
        "content": format_message(lines),
        "allowed_mentions": NO_MENTIONS,
        "components": components or [],
    }


def describe_start(command: TaskCommand, user: str, pipeline: Pipeline, redact: Redact) -> Json:
    """The task and where it runs."""
    lines = [f"<@{user}>: {escape_text(redact(command.task), 500)}"]
    if flags := _describe_flags(command, redact):
        lines.append(flags)
    return build_content(
        [*lines, f"Pipeline {format_link(pipeline.web_url, parse_origin(pipeline))} is started."]
    )


def describe_start_failure(command: TaskCommand, why: str, redact: Redact) -> Json:
    """The task and why there is no pipeline."""
    lines = [
        escape_text(redact(command.task), 300),
        f"No pipeline: {escape_text(redact(why), 600)}",
    ]
    return build_content(lines)


def describe_missing_result(pipeline: Pipeline, why: str) -> Json:
    """Why there is no result."""
    return build_content([f"{why} {format_link(pipeline.web_url, parse_origin(pipeline))}"])


def describe_result(run: EndedRun, pipeline: Pipeline, buttons: list[Json], redact: Redact) -> Json:
    """The run's change, its tests and its result."""

    def redact_line(text: str, most: int) -> str:
        return escape_text(redact(text), most)

    result, gitlab_url = run.result, parse_origin(pipeline)
    reason = result.reason or result.summary
    error = f" ({redact_line(result.error_code, 40)})" if result.error_code else ""
    lines = [f"**{HEADLINES[result.outcome]}**{error}"]
    if result.mr_url:
        lines.append(format_link(redact(result.mr_url), gitlab_url))
    if run.title:
        lines.append(redact_line(run.title, 200))
    if reason:
        lines.append(redact_line(reason, 500))
    lines += [*_describe_change(run, redact), *_describe_commands(run, redact)]
    lines.append(f"{_describe_usage(run)}{format_link(pipeline.web_url, gitlab_url)}")
    if run.patch:
        lines.append(format_diff(redact(run.patch.decode("utf-8", "replace")), LONGEST_PATCH))
    return build_content(lines, buttons)


def describe_approval(text: str, user: str) -> Json:
    """The message after Approve: its buttons are gone; ``text`` is its former text."""
    return build_content([f"Approved by <@{user}>, is being published.", *text.split("\n")])


def build_refusal(text: str, user: str) -> Json:
    """The answer to Refuse: the message without buttons; ``text`` is its former text."""
    line = f"Refused by <@{user}>: nothing is published. The job that waits stays in the pipeline."
    return {"type": _UPDATE, "data": build_content([line, *text.split("\n")])}


def describe_approval_failure(why: str, redact: Redact) -> Json:
    """Why GitLab refused the approval."""
    return build_content([f"Not approved: {escape_text(redact(why), 600)}"])


def parse_origin(pipeline: Pipeline) -> str:
    """``https://host`` of a pipeline: the only site that messages link to."""
    return "/".join(pipeline.web_url.split("/", 3)[:3])


def _describe_flags(command: TaskCommand, redact: Redact) -> str:
    test = " ".join((command.test_id, *command.test_args))
    flags = {"provider": command.provider, "model": command.model, "test": test}
    words = [f"{name} {format_code(redact(value), 200)}" for name, value in flags.items() if value]
    return ", ".join([*words, *(["dry run"] if command.dry_run else [])])


def _describe_change(run: EndedRun, redact: Redact) -> list[str]:
    if not (size := run.change).files:
        return []
    lines = [f"{count_words(len(size.files), 'file')} changed, {size.delta}:"]
    lines += [f"- {format_code(redact(name), 120)}" for name in size.files[:MOST_FILES]]
    more = len(size.files) - MOST_FILES
    return [*lines, f"- and {more} more"] if more > 0 else lines


def _describe_commands(run: EndedRun, redact: Redact) -> list[str]:
    commands = run.result.commands or run.result.reported
    if run.change.files and not commands:
        return ["No test was run by the night shift itself."]
    source = "" if run.result.commands else "the work job reports: "
    lines = [
        f"{source}{'passed' if each.exit_status == 0 else 'failed'}:"
        f" {format_code(redact(each.command), 120)}"
        for each in commands[:MOST_COMMANDS]
    ]
    more = len(commands) - MOST_COMMANDS
    failed = sum(each.exit_status != 0 for each in commands[MOST_COMMANDS:])
    return [*lines, f"and {more} more, {failed} failed"] if more > 0 else lines


def _describe_usage(run: EndedRun) -> str:
    cost, seconds = run.result.total_cost_usd, run.result.total_duration_s
    bound: Bound = "at most" if run.result.assumed_tokens else ""
    parts = [] if cost is None else [format_usd(cost, bound)]
    parts += [] if seconds is None else [f"{seconds / 60:.0f} min"]
    return ", ".join(parts) + ", " if parts else ""


# --- buttons --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Press:
    """A click on one of our buttons."""

    approve: bool
    pipeline: int


def build_buttons(pipeline: int, key: bytes) -> list[Json]:
    """Buttons to approve or refuse a pipeline's change; ``key`` signs their ids."""
    buttons = [
        {
            "type": _BUTTON,
            "style": style,
            "label": label,
            "custom_id": _sign_button_id(verb, pipeline, key),
        }
        for verb, label, style in (("approve", "Approve", _SUCCESS), ("refuse", "Refuse", _DANGER))
    ]
    return [{"type": _ROW, "components": buttons}]


def read_press(custom_id: str, key: bytes) -> Press | None:
    """The click on a button by its id; None if this service did not make the button."""
    match = _BUTTON_ID.fullmatch(custom_id)
    # The id comes back from the person's own client, which may send any.
    if not match or not hmac.compare_digest(
        _sign_button_id(match[1], int(match[2]), key), custom_id
    ):
        return None
    return Press(match[1] == "approve", int(match[2]))


def _sign_button_id(verb: str, pipeline: int, key: bytes) -> str:
    text = f"ns:{verb}:{pipeline}"
    return f"{text}:{hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]}"


# --- the command ----------------------------------------------------------------------------------


def build_command(name: str) -> Json:
    """The slash command to register."""
    choices = [{"name": each, "value": each} for each in list_requestable_agents()]
    options = [
        _build_option("task", "What is to be done, in words", required=True, max_length=4000),
        _build_option("provider", "The coding agent", choices=choices),
        _build_option("model", "A full model id", max_length=200),
        _build_option("dry_run", "Stop before anything is pushed", _BOOLEAN),
        _build_option(
            "test", "The id of a test that must pass, and its arguments", max_length=1000
        ),
    ]
    text = "Give the night shift a task: it opens a merge request"
    return {"name": name, "type": 1, "description": text, "contexts": [_GUILD], "options": options}


def _build_option(name: str, description: str, kind: int = _STRING, **more: Any) -> Json:
    return {"name": name, "description": description, "type": kind, **more}


# --- harmless text --------------------------------------------------------------------------------


def escape_text(text: str, most: int) -> str:
    """One line of at most ``most`` characters (before escaping), shown literally."""
    line = " ".join(_clean_text(text).split())
    line = line if len(line) <= most else line[: most - 1].rstrip() + _CUT
    # A space of no width after @ and within :// keeps Discord from a mention and a link.
    line = _MARKDOWN.sub(r"\\\g<0>", line)
    return line.replace("@", f"@{_ZERO_WIDTH}").replace("://", f":{_ZERO_WIDTH}//")


def format_code(text: str, most: int) -> str:
    """One line of at most ``most`` characters, as inline code."""
    line = " ".join(_clean_text(text).split()).replace("`", "'")
    line = line if len(line) <= most else line[: most - 1].rstrip() + _CUT
    return f"`{line.replace('@', f'@{_ZERO_WIDTH}') or ' '}`"


def format_diff(patch: str, most: int) -> str:
    """A patch as a code block of about ``most`` characters, with a note if it is cut."""
    kept: list[str] = []
    # A backquote could end the code block.
    lines = [_clean_text(line).replace("`", "'") for line in patch.rstrip().split("\n")]
    for line in lines:
        if sum(map(len, kept)) + len(kept) + len(line) > most:
            break
        kept.append(line.replace("@", f"@{_ZERO_WIDTH}"))
    note = [CUT_NOTE] if len(kept) < len(lines) else []
    return "\n".join([*(["```diff", *kept, "```"] if kept else []), *note])


def format_link(url: str, gitlab_url: str) -> str:
    """A link to this site (``https://host``) without a preview; another address as plain text."""
    if re.fullmatch(r"https?://[\w./:~%+@=&?#-]+", url) and url.startswith(f"{gitlab_url}/"):
        # Discord shows no preview of a link in angle brackets.
        return f"<{url}>"
    return escape_text(url, 200)


def format_message(lines: list[str]) -> str:
    """The lines as one message; "…" replaces those that do not fit."""
    kept: list[str] = []
    for line in lines:
        # In UTF-16 units, as Discord's own clients count.
        units = len("\n".join([*kept, line, _CUT]).encode("utf-16-le", "replace")) // 2
        if units > LONGEST_MESSAGE:
            return "\n".join([*kept, _CUT])
        kept.append(line)
    return "\n".join(kept)


def _clean_text(text: str) -> str:
    """The text without hidden and bidirectional characters; line ends become spaces."""
    text = unicodedata.normalize("NFC", text)
    return remove_hidden(re.sub("[\t\n\r\v\f\x85\u2028\u2029]", " ", text))
