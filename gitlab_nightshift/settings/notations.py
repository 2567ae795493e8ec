"""The notations of values in settings: durations, sizes, weekdays, names, patterns, commands,
addresses. A function returns the valid value, or raises ValueError with a text for the user."""

import datetime
import functools
import re
import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gitlab_nightshift.job.job_secrets import MODEL_KEYS, is_gitlab_credential
from gitlab_nightshift.registry.agent_registry import list_agent_names
from gitlab_nightshift.registry.categories import FALLBACK_ORDER, TASK
from gitlab_nightshift.registry.flag_registry import FLAGS
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from pydantic import ValidationInfo

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
LONGEST_COMMAND = 1000
"""Characters."""
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
PLACEHOLDERS = frozenset(
    """category category_guidance date repo_url project_path default_branch base_sha handoff_file
    analysis_file verify_error allowed_commands build_commands verify_commands recent_files
    open_merge_requests rejected_ideas max_diff_lines deadline reviewer
    short_description evidence last_patch_file""".split()
)
"""The built-in placeholders of prompt templates."""
PLACEHOLDER = compile_lazily(r"\\\{\{|\{\{([a-z][a-z0-9_]*)\}\}")
"""A placeholder in a template, with its name as the group; or an escaped ``\\{{``."""
CODE_OWNERS, APPROVAL_RULES, GROUP = "code_owners", "approval_rules", "group:"
"""Values that ``reviewers`` may have instead of a user name; a group's path follows the last."""
ALL = "all"
"""The key of ``instructions`` for every category."""
LONGEST_INSTRUCTIONS = 10_000
"""Characters, which are sent with every prompt of the category."""
# OpenAI's API reference, "Create chat completion".
RESERVED_FIELDS = frozenset(
    "model messages stream stream_options tools tool_choice n max_tokens max_completion_tokens"
    " response_format web_search_options plugins background audio".split()
)
"""Fields of a Chat Completions request that teams may not set: this program sets them, or they make
the server search, speak or work in the background."""
RESERVED_HEADERS = frozenset(
    "host accept accept-encoding connection content-type content-length transfer-encoding".split()
)
"""Headers that requests have anyway, in lower case: the model key cannot be in one of them."""


def check_agent_name(value: str) -> str:
    """The name of an agent."""
    *names, last = map(repr, list_agent_names())
    if repr(value) not in (*names, last):
        raise ValueError(f"should be {', '.join(names)} or {last}")
    return value


def check_recording(value: str | None, info: "ValidationInfo") -> str | None:
    """The folder of a recorded night, which the agent ``replay`` needs."""
    if info.data.get("agent") == "replay" and not value:
        raise ValueError("agent: replay needs the folder of a recorded night here")
    return value


def parse_duration(value: Any) -> Any:
    """Seconds from ``90``, ``"90s"``, ``"10m"``, ``"2h"``."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([smhd]?)\s*", value)
    if not match:
        raise ValueError("not a duration; write seconds, or 90s, 10m, 2h")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(value: Any) -> Any:
    """Bytes from ``1000``, ``"500 MB"``, ``"2GB"``."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMG]?B?)\s*", value, re.I)
    if not match or match[2].upper() not in _BYTES:
        raise ValueError("not a size; write bytes, or 500MB, 2GB")
    return int(float(match[1]) * _BYTES[match[2].upper()])


def parse_weekday(value: Any) -> Any:
    """``mon`` to ``sun`` from the English name of a weekday, or at least three letters of it."""
    text = str(value).strip().lower()
    for name in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"):
        if len(text) >= 3 and name.startswith(text):
            return name[:3]
    raise ValueError(f"not a weekday; write one of {', '.join(WEEKDAYS)}")


def parse_date(value: Any) -> Any:
    """A date written as YYYY-MM-DD."""
    if isinstance(value, datetime.date):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise ValueError("expected a date such as 2025-12-24")
    return value


def check_time_zone(value: str) -> str:
    """The name of a time zone. UTC works even on a machine without time zone data."""
    if value != "UTC" and value not in _list_time_zones():
        raise ValueError("not a time zone; expected a name such as Europe/Berlin")
    return value


@functools.cache
def _list_time_zones() -> set[str]:
    import zoneinfo  # takes longer to load than most commands need for their settings

    return zoneinfo.available_timezones()


def check_new_category(value: Any) -> Any:
    """A name for a team's own category, which becomes part of a label and a title."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", value):
        raise ValueError("a category's name consists of lower-case letters, digits and dashes")
    if value in (*FALLBACK_ORDER, TASK, ALL):
        raise ValueError(f"{value!r} is built in; choose another name")
    return value


def check_known_category(value: str, info: "ValidationInfo", *, extra: tuple[str, ...] = ()) -> str:
    """A built-in category, one of ``categories``, or one of ``extra``."""
    # pydantic checks keys in the order of the class, and leaves invalid ones out of info.data.
    known = (*FALLBACK_ORDER, *info.data.get("categories", ()), *extra)
    if value not in known and "categories" in info.data:
        raise ValueError(f"no category {value!r}; known are {', '.join(known)}")
    return value


def check_instructed_category(value: str, info: "ValidationInfo") -> str:
    """A category that can have instructions: any, ``task``, or ``all``."""
    return check_known_category(value, info, extra=(ALL, TASK))


def check_instructions(value: str, info: "ValidationInfo") -> str:
    """A team's own instructions, whose only placeholders are those of ``variables``."""
    if len(value) > LONGEST_INSTRUCTIONS:
        limit = LONGEST_INSTRUCTIONS
        raise ValueError(f"{len(value)} characters; at most {limit} are sent with every prompt")
    variables = info.data.get("variables", {})
    for match in PLACEHOLDER.finditer(value):
        name = match[1]
        if name and name not in variables and "variables" in info.data:
            import difflib

            similar = difflib.get_close_matches(name, variables, 1)
            hint = f"; did you mean {{{{{similar[0]}}}}}?" if similar else ""
            raise ValueError(f"{{{{{name}}}}} is not one of your variables{hint}")
    return value.strip()


def check_flag_name(value: Any) -> Any:
    """The name of a red flag."""
    if value not in FLAGS:
        import difflib

        similar = difflib.get_close_matches(str(value), FLAGS, 1)
        hint = "nightshift check --explain all lists them"
        if similar:
            hint = f"did you mean {similar[0]}?"
        raise ValueError(f"no red flag has this name; {hint}")
    return value


def parse_flag_level(value: Any) -> Any:
    """A flag's level; YAML reads ``off`` without quotes as False."""
    return "off" if value is False else value


def check_variable_name(value: Any) -> Any:
    """A name for a team's own placeholder."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", value):
        raise ValueError("a name consists of lower-case letters, digits and _")
    if value in PLACEHOLDERS:
        raise ValueError(f"{value} is built in; choose another name")
    return value


def check_relative_glob(value: Any) -> Any:
    """A path pattern relative to the top of the repository."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("expected a path pattern")
    if value.startswith(("/", "~")) or ".." in value.split("/"):
        raise ValueError("a path pattern must be relative to the repository, without '..'")
    return value


def check_branch_prefix(value: str) -> str:
    """The beginning of a branch name that git allows (git-check-ref-format)."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}", value):
        raise ValueError("expected at most 100 letters, digits and . _ / -")
    if re.search(r"^refs/|\.\.|//|/\.|\./|\.lock/", value):
        raise ValueError("git allows no branch with this prefix")
    return value


def check_task_test(value: str, info: "ValidationInfo") -> str:
    """The id of a test, which needs a task."""
    if value.strip() and "task" in info.data and not info.data["task"]:
        raise ValueError("it applies to a task, and there is none: set task too, or remove this")
    return value


def check_reviewer(value: Any) -> Any:
    """A user name, ``group:PATH``, ``code_owners`` or ``approval_rules``."""
    if not isinstance(value, str) or not re.fullmatch(r"@?[\w.-]+|group:[\w.-]+(/[\w.-]+)*", value):
        raise ValueError(
            "expected a user name, group:PATH, code_owners or approval_rules; for the group "
            "acme/web write group:acme/web"
        )
    return value


def check_text_template(value: str) -> str:
    """The template of a title or a message, which must not be empty."""
    if not value.strip():
        raise ValueError("it is empty: remove the key, or write a text that contains {{title}}")
    if re.search(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f]", value.replace("\r\n", "\n")):
        raise ValueError("must not contain tabs or control characters")
    return value


def check_label(value: str) -> str:
    """The name of a label that GitLab accepts."""
    # GitLab refuses commas and more than 255 characters (app/models/label.rb).
    if not value.strip() or len(value) > 255 or "," in value or not value.isprintable():
        raise ValueError("expected 1 to 255 characters on one line without a comma")
    return value.strip()


def check_model_id(value: str) -> str:
    """A model's id: one word."""
    if not re.fullmatch(r"[!-~]{1,200}", value):
        raise ValueError("expected the id of a model, without spaces")
    return value


def check_model_options(value: dict[str, Any]) -> dict[str, Any]:
    """Fields of a request that this program does not set itself."""
    if reserved := sorted(RESERVED_FIELDS & value.keys()):
        raise ValueError(f"{reserved[0]} is set by this program")
    return value


def check_key_header(value: str) -> str:
    """A header that can carry the model key, and has no other purpose."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,60}", value) or value.lower() in RESERVED_HEADERS:
        raise ValueError("expected the name of a header for a key, such as api-key")
    return value


def check_web_address(value: str, *, example: str = "https://models.example.org") -> str:
    """An http address without credentials; an error shows the ``example``."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s@]", value):
        raise ValueError(f"expected an address such as {example}")
    return value


def parse_project_address(value: str) -> str:
    """A project's web address, converted from its SSH address if it is one."""
    match = re.fullmatch(r"ssh://(?:[\w.+-]+@)?([\w.-]+)(?::\d+)?/(\S+)", value)
    match = match or re.fullmatch(r"[\w.+-]+@([\w.-]+):(\S+)", value)
    if match:
        value = f"https://{match[1]}/{match[2].strip('/').removesuffix('.git')}"
    return check_web_address(value, example="https://gitlab.example.com/group/project")


def check_command(value: Any) -> Any:
    """A command on one line, without shell syntax."""
    if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
        raise ValueError("expected a command on one line")
    if len(value) > LONGEST_COMMAND:
        raise ValueError(f"a command of at most {LONGEST_COMMAND} characters is allowed")
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from None
    if "\0" in value or not words or not words[0]:
        raise ValueError("expected a command on one line")
    _refuse_shell_syntax(value)
    return value.strip()


def _refuse_shell_syntax(value: str) -> None:
    """Refuse shell operators: without a shell, they would be passed to the program as words."""
    # Escaped characters and quoted parts are passed to the program as they are.
    unquoted = re.sub(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", "", value)
    if operator := re.search(r"&&|\|\||>>|\$\(|[|&;<>`]", unquoted):
        raise ValueError(
            f"{operator[0]} needs a shell, and none is used: write one command for each step, or "
            "sh -c '…'; quote a word that contains such a character"
        )
    if re.match(r"\s*\w+=", value):
        raise ValueError("a variable before a command needs a shell: write env NAME=value …")


def check_allowed_command(value: Any) -> Any:
    """A command for the allowlist, without ``*`` and parentheses: an agent's CLI would read a
    pattern."""
    if isinstance(value, str) and ("*" in value or "(" in value or ")" in value):
        raise ValueError("must not contain * or parentheses: a single word allows any arguments")
    return value


def check_passed_variable(value: Any) -> Any:
    """The name of a variable that agents may get: no credential of GitLab, no proxy."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("expected the name of a variable")
    if is_gitlab_credential(value):
        raise ValueError(f"{value} is a GitLab credential, which no agent gets")
    # Programs read these in upper and lower case (curl(1), ENVIRONMENT).
    if re.fullmatch(r"(?i)(https?|all|no|ftp)_proxy", value):
        raise ValueError("agents do not get the job's proxy; open hosts with policy.egress_hosts")
    return value


def check_egress_host(value: Any) -> Any:
    """A host that agents may connect to, in lower case."""
    if not isinstance(value, str):
        raise ValueError("expected host or host:port")
    from gitlab_nightshift.settings.allowed_hosts import parse_egress_host

    parse_egress_host(value)
    return value.strip().lower()


def check_notification_url(value: Any) -> Any:
    """A notification URL, or the name of a variable that holds one."""
    if not isinstance(value, str) or not ("://" in value or value.startswith("$")):
        raise ValueError("expected a URL such as ntfys://topic, or a variable as $NAME")
    for name in re.findall(r"\$\{?(\w+)", value):
        if name in MODEL_KEYS or is_gitlab_credential(name):
            raise ValueError(f"{name} is for GitLab or a model and must go nowhere else")
    return value
