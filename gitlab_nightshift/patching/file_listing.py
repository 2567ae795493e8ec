"""Which files of a checkout a model may be shown: text that people wrote, and never a secret."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.repository.git import Git, split_names

LARGEST_SHOWN = 200_000
"""Bytes; a larger file is named in the listing, and shown only where it was selected."""
_SECRET = compile_lazily(
    r"(^|/)(\.env(\.(?!(example|sample|template|dist|defaults)$)[^/]*)?|[^/]+\.env|\.envrc|\.netrc|_netrc|\.npmrc"
    r"|\.yarnrc\.yml|\.pypirc|\.pgpass|\.my\.cnf|\.htpasswd|\.git-credentials|\.dockercfg|\.vault-token"
    r"|id_(rsa|dsa|ecdsa|ed25519)[^/]*|[^/]*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg)"
    r"|[^/]*\.tfvars(\.json)?|[^/]*\.tfstate(\.backup)?|credentials(\.[^/]*)?|secrets?(\.[^/]*)?"
    r"|service-?account[^/]*\.json|kubeconfig)$"
    r"|(^|/)(\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|secrets)/",
    re.IGNORECASE,
)
_NOT_WRITTEN = compile_lazily(
    r"(^|/)(node_modules|bower_components|third[_-]?party|vendor|vendored|site-packages|dist"
    r"|__pycache__|\.venv|target|_build|\.git)/"
    r"|\.min\.(js|css|mjs)$|\.(js|css|mjs)\.map$|_pb2(_grpc)?\.pyi?$|\.pb(\.gw)?\.(go|cc|h)$"
    r"|\.(g|freezed)\.dart$|\.designer\.cs$|\.generated\.\w+$|(^|/)zz_generated[^/]*\.go$"
    r"|(^|/)(package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|[^/]+\.lock|go\.sum|[^/]+\.lockb)$",
    re.IGNORECASE,
)
_BINARY = compile_lazily(
    r"\.(png|jpe?g|gif|webp|ico|bmp|tiff?|svgz|pdf|zip|gz|tgz|bz2|xz|zst|7z|tar|jar|war|class|so|o|a"
    r"|dll|dylib|exe|wasm|pyc|woff2?|ttf|otf|eot|mp[34]|m4a|wav|ogg|mov|avi|webm|sqlite3?|db|parquet"
    r"|npy|npz|pkl|onnx|safetensors|gguf|docx?|xlsx?|pptx?|odt)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ListedFile:
    """A file that may be shown, and its size in bytes."""

    path: str
    size: int


def is_secret(path: str) -> bool:
    """True for a file whose name says that it holds credentials."""
    return _SECRET.search(path) is not None


def list_files(
    git: Git, top: Path, paths: Sequence[str] = (), exclude_paths: Sequence[str] = ()
) -> tuple[ListedFile, ...]:
    """The files of a checkout within ``paths``, tracked or new, sorted; without ignored ones.

    Left out: files that by their name are secret, binary, generated or vendored. Raises GitError.
    """
    names = _list_names(git, top, "--exclude-standard")
    if paths:
        names &= _find_matching(git, top, paths)
    if exclude_paths:
        names -= _find_matching(git, top, exclude_paths)
    found = (ListedFile(name, _read_size(top / name)) for name in sorted(names) if _may_show(name))
    return tuple(file for file in found if file.size >= 0)


def _list_names(git: Git, top: Path, *options: str) -> set[str]:
    return set(split_names(git.run("ls-files", "-z", "-c", "-o", *options, cwd=top)))


def _find_matching(git: Git, top: Path, patterns: Sequence[str]) -> set[str]:
    """Files that patterns as in ``.gitignore`` match; git itself does the matching."""
    options = [f"--exclude={pattern}" for pattern in patterns]
    found = (git.run("ls-files", "-z", "-i", kind, *options, cwd=top) for kind in ("-c", "-o"))
    return {name for out in found for name in split_names(out)}


def _may_show(path: str) -> bool:
    return path.isprintable() and not any(
        kind.search(path) for kind in (_SECRET, _NOT_WRITTEN, _BINARY)
    )


def _read_size(path: Path) -> int:
    """Bytes of a regular file, -1 for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return -1
    return status.st_size if path.is_file() and not path.is_symlink() else -1
