"""Finds the files that GitLab reads as pipeline configuration at a commit."""

from functools import cache, partial

from gitlab_nightshift.registry.pipeline_files import CiFiles, follow_includes
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_listing import list_names
from gitlab_nightshift.repository.tree_objects import read_tree_file


def read_pipeline_files(repository: Repository, commit: str, ci_config: str) -> CiFiles:
    """The configuration files of a commit, with local includes. Raises GitError.

    ``ci_config`` is the project's setting, its path; if it names another project or a URL, there
    are no local files.
    """

    def read(path: str) -> bytes | None:
        return read_tree_file(repository, commit, path)

    if "@" in ci_config or "://" in ci_config:
        return CiFiles()
    names = cache(partial(list_names, repository, commit))
    return follow_includes(ci_config.removeprefix("/"), names, read)
