"""How ``reviewers`` names people: a user name, or where one is to be chosen from."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gitlab_nightshift.settings.model import Settings

CODE_OWNERS, APPROVAL_RULES, GROUP = "code_owners", "approval_rules", "group:"


def check_reviewer(value: Any) -> Any:
    """A user name, ``group:PATH``, ``code_owners`` or ``approval_rules``."""
    if not isinstance(value, str) or not re.fullmatch(r"@?[\w.-]+|group:[\w.-]+(/[\w.-]+)*", value):
        raise ValueError(
            "a user name, group:PATH, code_owners or approval_rules is expected; a group of the "
            "name acme/web is group:acme/web"
        )
    return value


def list_reviewers(settings: "Settings") -> tuple[str, ...]:
    """``reviewer`` and ``reviewers``, each once."""
    return tuple(dict.fromkeys(filter(None, (settings.reviewer, *settings.reviewers))))


def list_named_reviewers(settings: "Settings") -> tuple[str, ...]:
    """Those of them who are named."""
    return tuple(
        each
        for each in list_reviewers(settings)
        if each not in (CODE_OWNERS, APPROVAL_RULES) and not each.startswith(GROUP)
    )
