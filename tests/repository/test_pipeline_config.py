"""The files that GitLab reads as configuration, from a real repository at a commit."""

import os

import pytest

from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles
from gitlab_nightshift.repository.pipeline_config import read_pipeline_files
from tests.repository.conftest import Box
from tests.repository.tools import commit, write


def read_in(box: Box, files: dict[str, str], config: str = ".gitlab-ci.yml") -> CiFiles:
    for name, text in files.items():
        write(box.root, name, text)
    base = commit(box.root)
    for name in files:  # the files in the checkout do not count
        write(box.root, name, "include: planted.yml\n")
    return read_pipeline_files(box.create_private(), base, config)


def test_configuration_and_its_includes_at_the_commit(box: Box) -> None:
    odd = os.fsdecode(b"ci/odd \xff.yml")
    files = {
        ".gitlab-ci.yml": "include: ['/ci/*.yml', /, '', ../x.yml, \"a\\0b.yml\"]\n",
        "ci/a b.yml": "include: {local: deep/c.yml}\n",
        odd: "include: from-odd.yml\n",
        "deep/c.yml": "x: 1\n",
    }
    read = read_in(box, files)
    assert all(
        map(read.contains, (".gitlab-ci.yml", "ci/a b.yml", "ci/new.yml", "deep/c.yml", odd))
    )
    assert read.contains("from-odd.yml")
    assert not any(map(read.contains, ("planted.yml", "README.md", "deep/d.yml")))


def test_a_link_is_not_followed(box: Box) -> None:
    (box.root / ".gitlab-ci.yml").symlink_to("real.yml")
    write(box.root, "real.yml", "include: included.yml\n")
    base = commit(box.root)
    files = read_pipeline_files(box.create_private(), base, ".gitlab-ci.yml")
    assert not files.contains("included.yml")


@pytest.mark.parametrize("config", ["ci/main.yml", "/ci/main.yml"])
def test_the_project_may_set_another_path(box: Box, config: str) -> None:
    read = read_in(box, {"ci/main.yml": "include: other.yml\n"}, config)
    assert read.contains("other.yml")


@pytest.mark.parametrize("config", ["ci.yml@group/other", "https://example.com/ci.yml"])
def test_configuration_of_another_project_is_not_read(box: Box, config: str) -> None:
    assert read_in(box, {"ci.yml": "include: other.yml\n"}, config) == NO_INCLUDES
