"""Which files of a checkout a model may be shown: text that people wrote, and never a secret."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.repository.git import Git, split_names
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST_SHOWN = 200_000
"""Bytes; a larger file is named in the listing, and shown only where it was selected."""
_SECRET = compile_lazily(
    r"""
    (^|/)(
        (?P<variables>\.env(\.(?!(example|sample|template|dist|defaults)$)[^/]*)?)  # .env.local
      | (?P<shell>[^/]+\.env|\.envrc)                                 # prod.env
      | (?P<registry>\.npmrc|\.yarnrc\.yml|\.pypirc|\.dockercfg)      # home/.npmrc
      | (?P<login>[._]netrc|\.git-credentials|\.vault-token|\.htpasswd)  # .netrc
      | (?P<database>\.pgpass|\.my\.cnf)                              # .pgpass
      | (?P<ssh>id_(rsa|dsa|ecdsa|ed25519)[^/]*)                      # id_ed25519.old
      | (?P<key>[^/]*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg))  # tls/server.key
      | (?P<terraform>[^/]*\.(tfvars(\.json)?|tfstate(\.backup)?))    # prod.tfvars
      | (?P<named>credentials(\.[^/]*)?|secrets?(\.[^/]*)?)           # config/secrets.yml
      | (?P<cloud>service-?account[^/]*\.json|kubeconfig)             # service-account-1.json
    )$
    | (?P<folder>(^|/)(\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|secrets)/)  # .aws/config
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NOT_WRITTEN = compile_lazily(
    r"""
    (^|/)(
        (?P<installed>node_modules|bower_components|site-packages)/    # node_modules/a/b.js
      | (?P<vendored>third[_-]?party|vendor|vendored)/                 # vendor/a.go
      | (?P<built>dist|__pycache__|\.venv|target|_build|\.git)/      # target/classes/A.txt
      | (?P<kubernetes>zz_generated[^/]*\.go)$                       # api/zz_generated.deepcopy.go
      # uv.lock
      | (?P<lock_file>(package-lock|npm-shrinkwrap)\.json|pnpm-lock\.yaml|go\.sum|[^/]+\.lockb?)$
    )
    | (?P<minified>\.min\.(js|css|mjs)|\.(js|css|mjs)\.map)$         # app.min.js
    | (?P<protobuf>_pb2(_grpc)?\.pyi?|\.pb(\.gw)?\.(go|cc|h))$       # api.pb.go
    | (?P<generated>\.(g|freezed)\.dart|\.designer\.cs|\.generated\.\w+)$  # form.designer.cs
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BINARY = compile_lazily(
    r"""\.(
        (?P<image>png|jpe?g|gif|webp|ico|bmp|tiff?|svgz)       # logo.PNG
      | (?P<font>woff2?|ttf|otf|eot)                           # a.woff2
      | (?P<media>mp[34]|m4a|wav|ogg|mov|avi|webm)             # intro.mp4
      | (?P<document>pdf|docx?|xlsx?|pptx?|odt)                # spec.docx
      | (?P<archive>zip|gz|tgz|bz2|xz|zst|7z|tar|jar|war)      # a.tar.gz
      | (?P<program>class|so|o|a|dll|dylib|exe|wasm|pyc)       # A.class
      | (?P<data>sqlite3?|db|parquet|npy|npz|pkl|onnx|safetensors|gguf)  # model.onnx
    )$""",
    re.IGNORECASE | re.VERBOSE,
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
