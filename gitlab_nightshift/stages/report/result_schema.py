"""The JSON Schema of ``result.json``, as it is published in ``docs/result.schema.json``."""

from typing import Any

from gitlab_nightshift.records import run_results
from gitlab_nightshift.records.run_results import RESULT_VERSION, RunResult
from gitlab_nightshift.records.storage import build_adapter
from gitlab_nightshift.settings.schema import describe


def build_result_schema() -> dict[str, Any]:
    """The schema. A reader has to allow fields that it does not know."""
    made = build_adapter(RunResult).json_schema(mode="serialization")
    kinds = {**made["$defs"], RunResult.__name__: made}
    describe(kinds, run_results)
    for kind in kinds.values():
        if "properties" in kind:
            kind["required"] = list(kind["properties"])
            for field in kind["properties"].values():
                field.pop("default", None)
    made["properties"]["version"] = {"const": RESULT_VERSION}
    title = f"result.json of gitlab-nightshift, version {RESULT_VERSION}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": title}
