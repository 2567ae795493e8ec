"""The download caches of build tools: a build without a network needs them.

The sandbox has an empty HOME, so a tool finds its cache only by the variable that names it. To add
a tool, add a row to ``CACHES``.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.sandbox.system_paths import HOME_FILES
from gitlab_nightshift.text.lazy_patterns import compile_lazily


@dataclass(frozen=True)
class Cache:
    """A tool's cache: the variable that names its folder, and its default below HOME.

    ``parts`` are the subfolders to open ("": all of it): Cargo also keeps credentials there.
    ``needs`` are variables that make the tool work with a read-only cache.
    """

    variable: str
    default: str
    parts: tuple[str, ...] = ("",)
    needs: Mapping[str, str] = field(default_factory=dict)


MAVEN_OPTS = "MAVEN_OPTS"
_MAVEN = "-Dmaven.repo.local="
CACHES = (
    Cache("GOMODCACHE", "go/pkg/mod", needs={"GODEBUG": "goindex=0"}),  # Go would write an index
    # https://doc.rust-lang.org/cargo/guide/cargo-home.html
    Cache("CARGO_HOME", ".cargo", ("registry", "git", "bin")),
    Cache("RUSTUP_HOME", ".rustup"),
    Cache(MAVEN_OPTS, ".m2/repository"),
    Cache("npm_config_cache", ".npm", ("_cacache",)),
    # By default it asks the network for the latest version each time.
    Cache("COREPACK_HOME", ".cache/node/corepack", needs={"COREPACK_DEFAULT_TO_LATEST": "0"}),
    Cache("PIP_CACHE_DIR", ".cache/pip"),
)
_IN_MAVEN_OPTS = compile_lazily(r"(?:^|\s)-Dmaven\.repo\.local=(\S+)")
_PLAIN = compile_lazily(r"/[^$~\x00-\x1f]*")
"""Paths that need no quoting in a setting."""


@dataclass(frozen=True)
class ToolCaches:
    """The caches on this machine: ``variables`` that name them, and ``folders`` to open for reading
    (not those in the checkout, which is open anyway)."""

    variables: Mapping[str, str]
    folders: tuple[Path, ...]

    @property
    def maven(self) -> Path | None:
        """Maven's local repository; None if there is none."""
        named = self.variables.get(MAVEN_OPTS, "").removeprefix(_MAVEN)
        return Path(named) if named else None


def find_tool_caches(env: Mapping[str, str], home: Path, checkout: Path) -> ToolCaches:
    """The caches of the job's tools, from its variables or below ``home``.

    Never a folder that contains the home, the checkout or a file with credentials.
    """
    variables, folders = dict[str, str](), list[Path]()
    for cache in CACHES:
        top = _find_top(cache, env, home)
        parts = [top / part for part in cache.parts if (top / part).is_dir()]
        safe = [part for part in parts if not _exposes(part, home, checkout)]
        if not safe or not _PLAIN.fullmatch(str(top)):
            continue
        folders += (part for part in safe if not part.is_relative_to(checkout))
        named = f"{_MAVEN}{top}" if cache.variable == MAVEN_OPTS else str(top)
        variables |= {cache.variable: named, **cache.needs}
    return ToolCaches(variables, tuple(folders))


def _find_top(cache: Cache, env: Mapping[str, str], home: Path) -> Path:
    named = env.get(cache.variable, "")
    if cache.variable == MAVEN_OPTS:
        found = _IN_MAVEN_OPTS.search(named)
        named = found[1] if found else ""
    # Go's own default: the first folder of GOPATH (cmd/go's test mod_gomodcache.txt).
    if cache.variable == "GOMODCACHE" and not named and env.get("GOPATH"):
        named = f"{env['GOPATH'].split(os.pathsep)[0]}/pkg/mod"
    return Path(named) if named.startswith("/") else home / cache.default


def _exposes(folder: Path, home: Path, checkout: Path) -> bool:
    """True if reading ``folder`` would reveal more than a tool's downloads."""
    forms, job_files = (folder, folder.resolve()), checkout.with_name(f"{checkout.name}.tmp")
    secrets = [job_files, *(home / name for name in HOME_FILES)]
    closed = [home, checkout, *filter(os.path.lexists, secrets)]
    return any(
        path.is_relative_to(form) or (each in secrets and form.is_relative_to(path))
        for each in closed
        for path in (each, each.resolve())
        for form in forms
    )
