"""The small notations of settings: durations, sizes, weekdays, names, patterns."""

import datetime
import difflib
import functools
import re
import shlex
import zoneinfo
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationInfo

from gitlab_nightshift.guidance import FALLBACK_ORDER, TASK
from gitlab_nightshift.settings.hosts import egress_host

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
LONGEST_COMMAND = 1000
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

PLACEHOLDERS = frozenset(
    """category category_guidance date repo_url project_path default_branch base_sha handoff_file
    analysis_file verify_error allowed_commands build_commands verify_commands recent_files
    open_merge_requests rejected_ideas max_diff_lines deadline reviewer
    short_description""".split()
)
"""The built-in placeholders of prompt templates."""

FLAG_NAMES = tuple(
    """test-deleted test-skipped test-loosened test-renamed-away assertion-removed
    test-without-assertion test-cannot-fail test-detection linter-loosened types-loosened
    coverage-loosened ci-loosened suppression-added exception-swallowed dependency-file
    generated-file vendored-file binary-file recent-file diff-too-large whitespace-only
    outside-selection outside-paths machine-text public-name-removed signature-changed secret-added
    dangerous-call broken-link broken-example tests-fail test-passes-before mutants-survive
    flaky-test complexity-raised slower""".split()
)
"""The red flags that ``policy.flags`` may name (``verdict/flags`` holds what they do)."""

_GITLAB_CREDENTIAL = re.compile(
    r"(GITLAB|GL|CI)_(\w+_)?(TOKEN|PASSWORD|PAT|KEY|JWT(_V\d)?)|CI_REPOSITORY_URL"
    r"|CI_SERVER_TLS_KEY_FILE|(PRIVATE|JOB)_TOKEN|DOCKER_AUTH_CONFIG|TRIGGER_PAYLOAD",
    re.IGNORECASE,
)


def duration(value: Any) -> Any:
    """Seconds from ``90``, ``"90s"``, ``"10m"``, ``"2h"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([smhd]?)\s*", value)
        if not match:
            raise ValueError("not a duration; write seconds, or 90s, 10m, 2h")
        return float(match[1]) * _UNITS[match[2]]
    return value


def size(value: Any) -> Any:
    """Bytes from ``1000``, ``"500 MB"``, ``"2GB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMG]?B?)\s*", value, re.IGNORECASE)
        unit = _BYTES.get(match[2].upper()) if match else None
        if not match or unit is None:
            raise ValueError("not a size; write bytes, or 500MB, 2GB")
        return int(float(match[1]) * unit)
    return value


def weekday(value: Any) -> Any:
    """``mon`` to ``sun`` from any usual way to write a weekday in English."""
    given = str(value).strip().lower()
    short = given[:3]
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    if short not in WEEKDAYS or not full[WEEKDAYS.index(short)].startswith(given):
        raise ValueError(f"not a weekday; write one of {', '.join(WEEKDAYS)}")
    return short


def day(value: Any) -> Any:
    """A date written as YYYY-MM-DD."""
    if isinstance(value, datetime.date):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        raise ValueError("a date such as 2025-12-24 is expected")
    return value


def time_zone(value: str) -> str:
    """The name of a time zone; UTC also where the machine has no time zone data."""
    if value != "UTC" and value not in _time_zones():
        raise ValueError("not a time zone; a name such as Europe/Berlin is expected")
    return value


@functools.cache
def _time_zones() -> set[str]:
    return zoneinfo.available_timezones()


def new_category(value: Any) -> Any:
    """A name for a category of the team's own: it becomes part of a label and a title."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", value):
        raise ValueError("a category's name is lower-case letters, digits and dashes")
    if value in (*FALLBACK_ORDER, TASK):
        raise ValueError(f"{value!r} is built in; choose another name")
    return value


def known_category(value: str, info: ValidationInfo) -> str:
    """One of the fixed five or of ``categories``, which is checked before."""
    known = (*FALLBACK_ORDER, *info.data.get("categories", ()))
    if value not in known and "categories" in info.data:
        raise ValueError(f"no category {value!r}; known are {', '.join(known)}")
    return value


def flag_name(value: Any) -> Any:
    """The name of a red flag."""
    if value not in FLAG_NAMES:
        near = difflib.get_close_matches(str(value), FLAG_NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else "; docs/checks.md lists them"
        raise ValueError(f"no red flag has this name{hint}")
    return value


def flag_level(value: Any) -> Any:
    """``off`` without quotes is False in YAML."""
    return "off" if value is False else value


def variable_name(value: Any) -> Any:
    """A name for a placeholder of the team's own."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", value):
        raise ValueError("a name is lower-case letters, digits and _")
    if value in PLACEHOLDERS:
        raise ValueError(f"{value} is built in; choose another name")
    return value


def relative_glob(value: Any) -> Any:
    """A path pattern inside the repository."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("a path pattern is expected")
    if isinstance(value, str) and (value.startswith(("/", "~")) or ".." in value.split("/")):
        raise ValueError("a path pattern is relative to the repository and has no '..'")
    return value


def branch_prefix(value: str) -> str:
    """The beginning of a branch's name, as git allows it (git-check-ref-format)."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", value):
        raise ValueError("letters, digits and . _ / - are expected")
    if re.search(r"\.\.|//|/\.|\./|\.lock/", value):
        raise ValueError("git allows no branch that begins so")
    return value


def web_address(value: str) -> str:
    """An http address without credentials."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s@]", value):
        raise ValueError("an address such as https://gitlab.example.com/group/project is expected")
    return value


def command(value: Any) -> Any:
    """A command: words on one line."""
    if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
        raise ValueError("a command on one line is expected")
    if len(value) > LONGEST_COMMAND:
        raise ValueError(f"a command of at most {LONGEST_COMMAND} characters is expected")
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from None
    if "\0" in value or not words or not words[0]:
        raise ValueError("a command on one line is expected")
    return value.strip()


def allowed_command(value: Any) -> Any:
    """A command for the allowlist; a ``*`` would allow more than the one command."""
    if isinstance(value, str) and ("*" in value or "(" in value or ")" in value):
        raise ValueError("no * and no parentheses: one word allows any arguments")
    return value


def passed_variable(value: Any) -> Any:
    """A variable's name that an agent may see; GitLab's credentials are on no list."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("the name of a variable is expected")
    if is_gitlab_credential(value):
        raise ValueError(f"{value} is a GitLab credential; no agent gets it")
    if re.fullmatch(r"(?i)(https?|all|no|ftp)_proxy", value):
        raise ValueError("agents get no proxy of the job; policy.egress_hosts opens hosts to them")
    return value


def is_gitlab_credential(name: str) -> bool:
    """True for a variable that holds access to GitLab: on no list, whoever asks for it."""
    return _GITLAB_CREDENTIAL.fullmatch(name) is not None


def open_host(value: Any) -> Any:
    """A host that agents may reach."""
    if not isinstance(value, str):
        raise ValueError("a host, or host:port, is expected")
    egress_host(value)
    return value.strip().lower()


def notification_url(value: Any) -> Any:
    """A notification URL, or the name of a variable that holds one."""
    if not isinstance(value, str) or not ("://" in value or value.startswith("$")):
        raise ValueError("a URL such as ntfys://topic, or $NAME of a variable, is expected")
    return value
