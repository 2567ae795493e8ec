"""What git knows of a checkout while nobody works in it; each question is asked only once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gitlab_nightshift.repository.git import (
    CONVERSION_KEYS,
    IDENTITY_KEYS,
    CommitIdentity,
    Git,
    RepositoryPaths,
    build_identity,
    find_paths_and_head,
    list_tracked_files,
    read_settings,
)


@dataclass(frozen=True)
class KnownCheckout:
    """A checkout that does not change: make a new object after another commit was checked out, and
    none while agents run. ``git`` is isolated; ``machine_git`` has this machine's identity and
    filters.

    All properties raise NightshiftError E_CONFIG if it is no checkout, or has no commit.
    """

    git: Git
    machine_git: Git
    top: Path

    @cached_property
    def paths_and_head(self) -> tuple[RepositoryPaths, str]:
        """The paths of its repository's parts, and the checked-out commit."""
        return find_paths_and_head(self.git, self.top)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """All paths in the index."""
        return list_tracked_files(self.git, self.top)

    @cached_property
    def _settings(self) -> dict[str, str]:
        return read_settings(self.machine_git, self.top, *CONVERSION_KEYS, *IDENTITY_KEYS)

    @property
    def config(self) -> dict[str, str]:
        """The settings of ``CONVERSION_KEYS``, this machine's included."""
        return {key: value for key, value in self._settings.items() if key in CONVERSION_KEYS}

    @property
    def identity(self) -> CommitIdentity | None:
        """The configured person; None unless name and address are set."""
        return build_identity(self._settings)
