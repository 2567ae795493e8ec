"""The schema that agents get says what the records say."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from gitlab_nightshift.stages.work.handoff_schema import KINDS, build_schema

CUT_HERE = ("title", "maxItems", "maxLength")


def drop_limits(schema: Any) -> Any:
    """What pydantic says of a record, without what agents are not told."""
    if isinstance(schema, list):
        return [drop_limits(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    properties = schema.get("properties", {})
    loose = {key: drop_limits(part) for key, part in schema.items() if key not in CUT_HERE}
    if properties:
        loose["properties"] = {name: drop_limits(part) for name, part in properties.items()}
    if isinstance(loose.get("items"), dict):
        loose["items"].pop("minLength", None)
    return loose


@pytest.mark.parametrize("bead", KINDS)
def test_it_is_what_pydantic_makes_of_the_record(bead: str) -> None:
    assert build_schema(bead) == drop_limits(TypeAdapter(KINDS[bead]).json_schema())
