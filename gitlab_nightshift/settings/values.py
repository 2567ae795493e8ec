"""The small notations of settings: durations, sizes, weekdays, names, patterns."""

import re
from typing import Any

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

GITLAB_CREDENTIALS = frozenset(
    {
        "GITLAB_TOKEN",
        "CI_JOB_TOKEN",
        "CI_REPOSITORY_URL",
        "CI_REGISTRY_PASSWORD",
        "CI_DEPLOY_PASSWORD",
        "CI_DEPENDENCY_PROXY_PASSWORD",
    }
)


def duration(value: Any) -> Any:
    """Seconds from ``90``, ``"90s"``, ``"10m"``, ``"2h"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
        if not match:
            raise ValueError("not a duration; write seconds, or 90s, 10m, 2h")
        return float(match[1]) * _UNITS[match[2]]
    return value


def size(value: Any) -> Any:
    """Bytes from ``1000``, ``"500 MB"``, ``"2GB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?B?)\s*", value, re.IGNORECASE)
        unit = _BYTES.get(match[2].upper()) if match else None
        if not match or unit is None:
            raise ValueError("not a size; write bytes, or 500MB, 2GB")
        return int(float(match[1]) * unit)
    return value


def weekday(value: Any) -> Any:
    """``mon`` to ``sun`` from any usual way to write a weekday in English."""
    short = str(value).strip().lower()[:3]
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    if short not in WEEKDAYS or not full[WEEKDAYS.index(short)].startswith(str(value).lower()):
        raise ValueError(f"not a weekday; write one of {', '.join(WEEKDAYS)}")
    return short


def mapping_name(value: Any) -> Any:
    """A category's name: it becomes part of a label and a title."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", value):
        raise ValueError("a category's name is lower-case letters, digits and dashes")
    return value


def relative_glob(value: Any) -> Any:
    """A path pattern inside the repository."""
    if isinstance(value, str) and (value.startswith(("/", "~")) or ".." in value.split("/")):
        raise ValueError("a path pattern is relative to the repository and has no '..'")
    return value


def relative_name(value: str) -> str:
    """One folder's name directly in the checkout."""
    if value.lower() == ".git" or "/" in value:
        raise ValueError("the name of one folder in the checkout is expected")
    return value


def command(value: Any) -> Any:
    """A command: words on one line."""
    if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
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
    if value in GITLAB_CREDENTIALS:
        raise ValueError(f"{value} is a GitLab credential; no agent gets it")
    return value


def notification_url(value: Any) -> Any:
    """A notification URL, or the name of a variable that holds one."""
    if not isinstance(value, str) or not ("://" in value or value.startswith("$")):
        raise ValueError("a URL such as ntfys://topic, or $NAME of a variable, is expected")
    return value
