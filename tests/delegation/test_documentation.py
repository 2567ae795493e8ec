"""The orchestrator of the documentation, really run; and its tables."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from gitlab_nightshift import api
from tests.support.delegation import POLICY, TASK, delegations
from tests.support.shop import GOOD
from tests.support.world import ROOT

PAGE = (ROOT / "docs/delegation.md").read_text()
BLOCKS = dict(re.findall(r"```(yaml|python|json)\n(.*?)```", PAGE, re.DOTALL))


def test_the_orchestrator_works_as_it_stands_there(tmp_path: Path) -> None:
    assert BLOCKS["yaml"] == POLICY
    assert len(BLOCKS["python"].strip().splitlines()) <= 22
    with delegations(tmp_path, GOOD, config=BLOCKS["yaml"]) as context:
        program = context.agent.bin / "nightshift"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gitlab_nightshift "$@"\n')
        program.chmod(0o755)
        del context.env["NIGHTSHIFT_ORCHESTRATOR"]
        argv = [sys.executable, "-c", BLOCKS["python"], str(context.repository), TASK]
        done = subprocess.run(
            argv, cwd=context.context, env=context.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done
        branch = context.branches()[-1]
        told = "1 file changed, +2 -0; the test passed; one commit on"
        assert done.stdout == f"{branch}: {told} {branch}; cost $0.00\n"


def keys(schema: dict[str, Any], part: str) -> dict[str, Any]:
    """The dotted keys of a schema and their defaults."""
    found: dict[str, Any] = {}
    known = schema[part].get("$defs", {})

    def walk(prefix: str, node: dict[str, Any]) -> None:
        for name, each in node["properties"].items():
            inner = known.get(each.get("$ref", "").rpartition("/")[2])
            if inner:
                walk(f"{prefix}{name}.", inner)
            else:
                found[prefix + name] = each.get("default")

    walk("", schema[part])
    return found


def test_the_page_shows_every_key_of_the_payload_with_its_default() -> None:
    payload = keys(api.build_schemas(), "payload")
    shown = flatten(json.loads(BLOCKS["json"]))
    assert shown.pop("task_prompt")
    del payload["task_prompt"]
    assert shown == payload


def flatten(node: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The dotted keys of an object and their values."""
    found: dict[str, Any] = {}
    for name, each in node.items():
        inner = (
            flatten(each, f"{prefix}{name}.") if isinstance(each, dict) else {prefix + name: each}
        )
        found |= inner
    return found


def test_every_key_of_the_payload_says_what_it_means() -> None:
    schema = api.build_schemas()["payload"]
    described = [schema, *schema["$defs"].values()]
    parts = [(name, each) for node in described for name, each in node["properties"].items()]
    assert [
        name for name, each in parts if not each.get("description") and "$ref" not in each
    ] == []


def test_every_key_of_the_result_is_documented() -> None:
    names = [(key, key.rpartition(".")[2]) for key in keys(api.build_schemas(), "result")]
    assert [key for key, n in names if f"`{n}`" not in PAGE and f"`{key}`" not in PAGE] == []
