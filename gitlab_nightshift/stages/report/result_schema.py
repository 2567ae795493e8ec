"""The JSON Schema of ``result.json``, as it is published in ``docs/result.schema.json``."""

from typing import Any

from gitlab_nightshift.records import run_results
from gitlab_nightshift.records.run_results import RESULT_VERSION, RunResult
from gitlab_nightshift.records.storage import build_adapter
from gitlab_nightshift.settings.schema import add_descriptions


def build_result_schema() -> dict[str, Any]:
    """The schema. Readers must allow unknown fields."""
    schema = build_adapter(RunResult).json_schema(mode="serialization")
    definitions = {**schema["$defs"], RunResult.__name__: schema}
    add_descriptions(definitions, run_results)
    for definition in definitions.values():
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
            for field in definition["properties"].values():
                field.pop("default", None)
    schema["properties"]["version"] = {"const": RESULT_VERSION}
    title = f"result.json of gitlab-nightshift, version {RESULT_VERSION}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
