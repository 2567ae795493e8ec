"""What a notary has seen, for tests that need a record of it."""

from typing import Any

from gitlab_nightshift.records.notary_records import NotarizedCommand, NotarizedRun, NotaryRecord
from gitlab_nightshift.records.products import Bundle

PASSED = NotarizedRun(0, 12.34)
FAILED = NotarizedRun(1, 2.5)


def seen(bundle: Bundle, *commands: NotarizedCommand, **more: Any) -> NotaryRecord:
    """The record of these commands on a bundle's change."""
    assert bundle.proposal
    about = (bundle.run_id, bundle.base_sha, bundle.proposal.change.tree_id)
    asked = tuple(each.command for each in commands)
    return NotaryRecord(*about, **{"asked": asked, "commands": commands, **more})
