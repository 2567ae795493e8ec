"""A JSON Schema in the subset that OpenAI's structured outputs take.

Every property is required and none else allowed; what the subset does not know is left out. The
hand-off is validated by the whole schema afterwards, whatever came.
"""

from typing import Any

_KEPT = frozenset({"type", "enum", "const", "description", "$ref"})
_LISTS = ("anyOf",)
_MAPPINGS = ("$defs", "properties")


def restrict_schema(schema: Any) -> Any:
    """The schema within the subset."""
    if not isinstance(schema, dict):
        return schema
    made = {key: value for key, value in schema.items() if key in _KEPT}
    made |= {
        key: [restrict_schema(part) for part in schema[key]] for key in _LISTS if key in schema
    }
    for key in _MAPPINGS:
        if key in schema:
            made[key] = {name: restrict_schema(part) for name, part in schema[key].items()}
    if "items" in schema:
        made["items"] = restrict_schema(schema["items"])
    if schema.get("type") == "object":
        made["required"] = list(schema.get("properties", {}))
        made["additionalProperties"] = False
    return made
