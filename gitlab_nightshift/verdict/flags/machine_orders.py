"""How a text speaks to an AI that reviews or works here: a closed table of turns of phrase.

Words such as "agent" and "bot" name much else: with them alone a sentence counts only where it
asks for a verdict on the very change that it is part of.
"""

import re

from gitlab_nightshift.verdict.rule_tables import RuleTable

_TABLE = RuleTable(__file__)


_LIKELY = _TABLE.get_pattern("likely", re.IGNORECASE)
"""Whatever speaks to a machine holds one of these: a quick test that most lines fail."""


def find_instruction(text: str) -> re.Match[str] | None:
    """Where a text begins to speak to a machine; None where it does not."""
    return _ORDERS.search(text) if _LIKELY.search(text) else None


_ORDERS = _TABLE.get_pattern("orders", re.IGNORECASE)
