"""``planted.py`` in a process that has given nothing up: the control."""

from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.repository import bundle_reader
from tests.support import planted


def main(data: Mapping[str, Any]) -> int:
    setattr(bundle_reader, "renounce", lambda *_: ())  # noqa: B010
    return planted.main(data)
