"""The service's answers and messages in Discord's JSON. Text from agents and people is made
harmless: it pings nobody, links nowhere, hides nothing."""

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
# Types of interaction responses (Discord's API reference, "Interaction Callback Type"): pong; a new
# message, or an update of the message with the button; and both deferred: Discord shows that an
# answer is being prepared, until it is edited.
PONG: Json = {"type": 1}
_MESSAGE, _UPDATE = 4, 7
DEFERRED: Json = {"type": 5}
DEFERRED_UPDATE: Json = {"type": 6}
MOST_FILES, MOST_COMMANDS = 10, 5
LONGEST_PATCH = 900
"""Characters; the whole patch is in the artifacts."""
# Discord's numbers (its API documentation): the message flag EPHEMERAL, the component types action
# row and button, the button styles success and danger, the type of a slash command, the option
# types string and boolean, the context of a command in a server.
_EPHEMERAL = 1 << 6
_ROW, _BUTTON, _SUCCESS, _DANGER = 1, 2, 3, 4
_CHAT_INPUT = 1
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
_ELLIPSIS = "…"
CUT_NOTE = "The rest is in the artifacts: bundle/change.patch"
_ZERO_WIDTH = "\N{ZERO WIDTH SPACE}"
_MARKDOWN = compile_lazily(r"[\\*_~`|<>\[\]()#]")


def build_private_answer(text: str) -> Json:
    """An answer that only the person who asked sees."""
    data = {"content": format_message([text]), "flags": _EPHEMERAL, "allowed_mentions": NO_MENTIONS}
    return {"type": _MESSAGE, "data": data}


def build_message(lines: list[str], components: list[Json] | None = None) -> Json:
    """A message; if it replaces another one, the other's buttons are removed."""
    return {
        "content": format_message(lines),
        "allowed_mentions": NO_MENTIONS,
        "components": components or [],
    }


def describe_start(command: TaskCommand, user: str, pipeline: Pipeline, redact: Redact) -> Json:
    """The task, and the pipeline that runs it."""
    lines = [f"<@{user}>: {escape_text(redact(command.task), 500)}"]
    if flags := _describe_flags(command, redact):
        lines.append(flags)
    link = format_link(pipeline.web_url, parse_origin(pipeline))
    return build_message([*lines, f"Pipeline {link} is started."])


def describe_start_failure(command: TaskCommand, why: str, redact: Redact) -> Json:
    """The task and why there is no pipeline."""
    reason = escape_text(redact(why), 600)
    return build_message([escape_text(redact(command.task), 300), f"No pipeline: {reason}"])


def describe_missing_result(pipeline: Pipeline, why: str) -> Json:
    """Why there is no result, and the pipeline."""
    return build_message([f"{why} {format_link(pipeline.web_url, parse_origin(pipeline))}"])


def describe_result(run: EndedRun, pipeline: Pipeline, buttons: list[Json], redact: Redact) -> Json:
    """The run's result, change and tests."""

    def clean_line(text: str, limit: int) -> str:
        return escape_text(redact(text), limit)

    result, gitlab_url = run.result, parse_origin(pipeline)
    reason = result.reason or result.summary
    error = f" ({clean_line(result.error_code, 40)})" if result.error_code else ""
    lines = [f"**{HEADLINES[result.outcome]}**{error}"]
    if result.mr_url:
        lines.append(format_link(redact(result.mr_url), gitlab_url))
    if run.title:
        lines.append(clean_line(run.title, 200))
    if reason:
        lines.append(clean_line(reason, 500))
    lines += [*_describe_change(run, redact), *_describe_commands(run, redact)]
    lines.append(f"{_describe_usage(run)}{format_link(pipeline.web_url, gitlab_url)}")
    if run.patch:
        lines.append(format_diff(redact(run.patch.decode("utf-8", "replace")), LONGEST_PATCH))
    return build_message(lines, buttons)


def describe_approval(text: str, user: str) -> Json:
    """The message that replaces one with the former ``text`` and buttons, after Approve."""
    return build_message([f"Approved by <@{user}>, is being published.", *text.split("\n")])


def build_refusal(text: str, user: str) -> Json:
    """The answer to Refuse: it replaces the message with the former ``text`` and buttons."""
    line = f"Refused by <@{user}>: nothing is published. The job that waits stays in the pipeline."
    return {"type": _UPDATE, "data": build_message([line, *text.split("\n")])}


def describe_approval_failure(why: str, redact: Redact) -> Json:
    """Why GitLab refused the approval."""
    return build_message([f"Not approved: {escape_text(redact(why), 600)}"])


def parse_origin(pipeline: Pipeline) -> str:
    """``https://host`` of a pipeline: the only site that messages link to."""
    return "/".join(pipeline.web_url.split("/", 3)[:3])


def _describe_flags(command: TaskCommand, redact: Redact) -> str:
    test = " ".join((command.test_id, *command.test_args))
    flags = {"provider": command.provider, "model": command.model, "test": test}
    texts = [f"{name} {format_code(redact(value), 200)}" for name, value in flags.items() if value]
    if command.dry_run:
        texts.append("dry run")
    return ", ".join(texts)


def _describe_change(run: EndedRun, redact: Redact) -> list[str]:
    files = run.change.files
    if not files:
        return []
    lines = [f"{count_words(len(files), 'file')} changed, {run.change.delta}:"]
    lines += [f"- {format_code(redact(name), 120)}" for name in files[:MOST_FILES]]
    more = len(files) - MOST_FILES
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
    text = "" if cost is None else f"{format_usd(cost, bound)}, "
    return text if seconds is None else f"{text}{seconds / 60:.0f} min, "


# --- buttons --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """A click on Approve (else Refuse) for a pipeline."""

    approve: bool
    pipeline: int


def build_buttons(pipeline: int, key: bytes) -> list[Json]:
    """Buttons to approve or refuse a pipeline's change; ``key`` signs their ids."""
    buttons = [
        {
            "type": _BUTTON,
            "style": style,
            "label": verb.capitalize(),
            "custom_id": _sign_button_id(verb, pipeline, key),
        }
        for verb, style in (("approve", _SUCCESS), ("refuse", _DANGER))
    ]
    return [{"type": _ROW, "components": buttons}]


def parse_button_id(custom_id: str, key: bytes) -> Decision | None:
    """The decision of a click on this button; None if its id was not signed with ``key``."""
    match = _BUTTON_ID.fullmatch(custom_id)
    if not match:
        return None
    # The id comes from the person's client, which may send any.
    verb, pipeline = match[1], int(match[2])
    if not hmac.compare_digest(_sign_button_id(verb, pipeline, key), custom_id):
        return None
    return Decision(verb == "approve", pipeline)


def _sign_button_id(verb: str, pipeline: int, key: bytes) -> str:
    text = f"ns:{verb}:{pipeline}"
    return f"{text}:{hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]}"


# --- the command ----------------------------------------------------------------------------------


def build_command(name: str) -> Json:
    """The slash command to register."""
    choices = [{"name": agent, "value": agent} for agent in list_requestable_agents()]
    options = [
        _build_option("task", "What is to be done, in words", required=True, max_length=4000),
        _build_option("provider", "The coding agent", choices=choices),
        _build_option("model", "A full model id", max_length=200),
        _build_option("dry_run", "Stop before anything is pushed", _BOOLEAN),
        _build_option(
            "test", "The id of a test that must pass, and its arguments", max_length=1000
        ),
    ]
    return {
        "name": name,
        "type": _CHAT_INPUT,
        "description": "Give the night shift a task: it opens a merge request",
        "contexts": [_GUILD],
        "options": options,
    }


def _build_option(name: str, description: str, kind: int = _STRING, **fields: Any) -> Json:
    return {"name": name, "description": description, "type": kind, **fields}


# --- harmless text --------------------------------------------------------------------------------


def escape_text(text: str, limit: int) -> str:
    """The text on one line of at most ``limit`` characters (before escaping), shown literally."""
    # A space of no width after @ and within :// keeps Discord from a mention and a link.
    line = _MARKDOWN.sub(r"\\\g<0>", _fit_line(text, limit))
    return line.replace("@", f"@{_ZERO_WIDTH}").replace("://", f":{_ZERO_WIDTH}//")


def format_code(text: str, limit: int) -> str:
    """The text on one line of at most ``limit`` characters, as inline code."""
    line = _fit_line(text, limit).replace("`", "'").replace("@", f"@{_ZERO_WIDTH}")
    return f"`{line or ' '}`"


def _fit_line(text: str, limit: int) -> str:
    line = " ".join(_clean_text(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + _ELLIPSIS


def format_diff(patch: str, limit: int) -> str:
    """A patch as a code block of about ``limit`` characters, with a note if it is cut."""
    shown: list[str] = []
    # A backquote could end the code block.
    lines = [_clean_text(line).replace("`", "'") for line in patch.rstrip().split("\n")]
    for line in lines:
        if sum(map(len, shown)) + len(shown) + len(line) > limit:
            break
        shown.append(line.replace("@", f"@{_ZERO_WIDTH}"))
    block = ["```diff", *shown, "```"] if shown else []
    return "\n".join(block if len(shown) == len(lines) else [*block, CUT_NOTE])


def format_link(url: str, gitlab_url: str) -> str:
    """A link without a preview, if it is to this GitLab (``https://host``); else plain text."""
    if re.fullmatch(r"https?://[\w./:~%+@=&?#-]+", url) and url.startswith(f"{gitlab_url}/"):
        # Discord shows no preview of a link in angle brackets.
        return f"<{url}>"
    return escape_text(url, 200)


def format_message(lines: list[str]) -> str:
    """The lines as one message; "…" replaces those that do not fit."""
    shown: list[str] = []
    for line in lines:
        # Discord counts UTF-16 units.
        message = "\n".join([*shown, line, _ELLIPSIS])
        if len(message.encode("utf-16-le", "replace")) // 2 > LONGEST_MESSAGE:
            return "\n".join([*shown, _ELLIPSIS])
        shown.append(line)
    return "\n".join(shown)


def _clean_text(text: str) -> str:
    """The text without hidden and bidirectional characters; line ends become spaces."""
    text = unicodedata.normalize("NFC", text)
    return remove_hidden(re.sub("[\t\n\r\v\f\x85\u2028\u2029]", " ", text))
