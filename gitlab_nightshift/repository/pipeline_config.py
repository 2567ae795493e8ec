"""Finds the files that GitLab reads as pipeline configuration at a commit."""

from functools import cache

from gitlab_nightshift.registry.pipeline_files import CiFiles, follow
from gitlab_nightshift.repository.git import split_names
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_objects import read_tree_file


def read_pipeline_files(repository: Repository, commit: str, ci_config: str) -> CiFiles:
    """The configuration files of a commit, with local includes. Raises GitError.

    ``ci_config`` is the project's setting; if it names another project or server, there are no
    local files.
    """

    @cache
    def list_names() -> frozenset[str]:
        listed = repository.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
        return frozenset(split_names(listed))

    def read(path: str) -> bytes | None:
        return read_tree_file(repository, commit, path)

    if "@" in ci_config or "://" in ci_config:
        return CiFiles()
    return follow(ci_config.removeprefix("/"), list_names, read)
