"""The data that the processes of a delegation exchange, as JSON."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.records.delegation_records import Payload


def pack_payload(payload: Payload) -> dict[str, Any]:
    """The payload as JSON data."""
    packed: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(payload)))
    return packed


def unpack_payload(data: Mapping[str, Any]) -> Payload:
    """The payload from JSON data."""
    from gitlab_nightshift.records.strict_reading import make_record

    payload: Payload = make_record(Payload, data)
    return payload
