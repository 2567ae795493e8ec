"""What GitLab reads as pipeline configuration at a commit, out of a repository."""

from functools import cache

from gitlab_nightshift.host.git import split_names
from gitlab_nightshift.host.repository import Repository, read_blobs
from gitlab_nightshift.policy import CiFiles, follow


def pipeline_files(repository: Repository, commit: str, ci_config: str) -> CiFiles:
    """The configuration of a commit and its local includes. Raises GitError.

    ``ci_config`` is the project's setting; one that names another project or server has no local
    includes here.
    """

    @cache
    def names() -> frozenset[str]:
        listed = repository.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
        return frozenset(split_names(listed))

    def read(path: str) -> bytes | None:
        if path not in names():
            return None
        entries = split_names(repository.run("ls-tree", "-z", "--full-tree", commit, "--", path))
        blobs = [entry.split("\t")[0].split(" ")[2] for entry in entries if " blob " in entry]
        return read_blobs(repository, blobs).get(blobs[0]) if blobs else None

    if "@" in ci_config or "://" in ci_config:
        return CiFiles()
    return follow(ci_config.removeprefix("/"), names, read)
