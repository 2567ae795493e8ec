"""The blocks of docs/how-to load: settings by the program, inputs and jobs by the template."""

import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitlab_nightshift.onboarding.project_files import TEMPLATE, is_template, parse_config
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs/how-to").glob("*.md"))
SPEC, JOBS = (ROOT / "templates/nightshift.yml").read_text(encoding="utf-8").split("\n---\n")
INPUTS: Mapping[str, Any] = yaml.safe_load(SPEC)["spec"]["inputs"]
KNOWN_JOBS = set(parse_config(JOBS, "template"))
REFERENCE = re.compile(r'!reference \["?(\.[^",\]]+)')


def list_blocks(text: str) -> Iterator[str]:
    for indent, block in re.findall(r"^( *)```yaml\n(.*?)^\1```$", text, re.M | re.S):
        yield textwrap.dedent(block) if indent else block


def find_mistakes(block: str) -> Iterator[str]:
    """What a pipeline's block names and the template does not have."""
    config = parse_config(block, "the block")
    includes = [each for each in config.get("include", ()) if is_template(each.get("file"), None)]
    inputs = [config.get("inputs", {}), *(each.get("inputs", {}) for each in includes)]
    for name, value in (pair for given in inputs for pair in given.items()):
        spec = INPUTS.get(name, {"options": ()})
        fits = re.search(spec.get("regex", ""), str(value))
        if value not in spec.get("options", [value]) or not fits:
            yield f"input {name}: {value}"
    own = [name for name in config if str(name).startswith((".nightshift", "nightshift"))]
    yield from (name for name in (*own, *REFERENCE.findall(block)) if name not in KNOWN_JOBS)
    lines = [line for name in own for line in config[name].get("before_script", ()) if line]
    lines += [given["extra_before"] for given in inputs if "extra_before" in given]
    yield from (line for line in lines if not is_shell(line))


def is_shell(line: str) -> bool:
    return subprocess.run(["sh", "-nc", line], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_loads(page: Path) -> None:
    blocks = list(list_blocks(page.read_text(encoding="utf-8")))
    assert blocks
    for block in blocks:
        name = block.split(maxsplit=2)[1].rstrip(",;")
        if name == "nightshift.yaml":
            load_settings({}, ConfigFile(name, block))
        else:
            assert name == ".gitlab-ci.yml", "a block's first line names its file"
            assert list(find_mistakes(block)) == []


def test_what_the_template_does_not_have_is_found() -> None:
    for block, mistakes in {
        f"include: [{{file: {TEMPLATE}, inputs: {{imagee: x}}}}]": ["input imagee: x"],
        "inputs: {shape: two-jobs}": ["input shape: two-jobs"],
        "inputs: {version: newest}": ["input version: newest"],
        "nightshift:works: {image: x}": ["nightshift:works"],
        'a: [!reference [".nightshift:fetch", script]]': [".nightshift:fetch"],
        "inputs: {extra_before: 'npm ci &&'}": ["npm ci &&"],
        "inputs: {shape: three-jobs}\nnightshift:work: {image: x}": [],
    }.items():
        assert list(find_mistakes(block)) == mistakes
