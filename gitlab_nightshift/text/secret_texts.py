"""Finds secrets: in a credential file's text, and by the names of variables and files.

In a text it guesses: values with a key such as ``password``, words that look random, the bodies of
private keys, and the only line of a file are secrets. Other lines are not, or ``apiVersion: v1``
would be redacted everywhere; nor are certificates and public keys. Standard library only.
"""

import binascii
import itertools
import os
import re
import stat
from collections.abc import Iterator

from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST_FILE = 64 * 1024
"""Bytes; larger files, such as bundles of certificates, are not searched."""
SHORTEST_IN_FILE = 8
"""Characters of a secret; shorter ones would redact words of every log."""
_SHORTEST_NAMED = 4
"""Characters of a secret with a key such as ``password``."""
LONGEST_LINE = 4096
"""Characters: the patterns take quadratic time."""
_SHORTEST_WORD = 16
"""Characters of a word that may look random."""
_PUBLIC_BLOCK = compile_lazily(
    r"-----BEGIN ([A-Z0-9 ]*(?:CERTIFICATE|PUBLIC KEY|CRL|REQUEST)[A-Z ]*)-----"
    r"(?:[^-]|-(?!----BEGIN ))*?-----END \1-----",
    re.DOTALL,
)
_CERTIFICATE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS"  # base64 of "-----BEGIN CERTIFICATE"
_KEY_VALUE = compile_lazily(
    r"""(?:export\s|[\s"'<-])*([\w.@/:-]*[\w-])["']?\s*(?:=>|[:=>])\s*(\S.*)"""
)
URL_PASSWORD = compile_lazily(r"://[^/\s:@]*:([^/\s@]+)@")
_HINT = compile_lazily(r"TOKEN|PASS|PWD|SECRET|CREDENTIAL|KEY|_PAT|AUTH|BUNDLE_|/t/", re.I)
"""Matches every line that ``_MARKED_SECRETS`` or ``_KEY_VALUE_INSIDE`` match, and is faster."""
_MARKED_SECRETS = (
    r"://[^\s\"']{1,200}?/t/([\w-]+)/",  # conda's tokens
    r"""(?i)\b(?:authorization["']?\s{0,9}[:=]\s{0,9}["']?(?:basic|bearer|token)\s"""
    r"""|(?:private|job|deploy)-token:)\s{0,9}([^\s"']+)""",
    r"""\bCredentials\((?:\s{0,9}"[^"]*"\s{0,9},){3}\s{0,9}"([^"]+)"\)""",  # sbt's
)
"""Words that are marked as secret."""
_KEY_VALUE_INSIDE = (
    r"""["']([\w.@/:-]{1,200})["']\s{0,9}[:=]?\s{0,9}["']([^"'\s][^"']*)["']""",
    r"""(?<![\w.:-])([\w.:-]{1,200})\s{0,9}[:=]\s{0,9}["']([^"'\s][^"']*)["']""",
    r"""<([\w.:-]{1,200})(?:\s[^<>]*)?>([^<>\s][^<>]*)</\1>""",
    r"""\bkey="([^"]{1,200})"\s{1,9}value="([^"]+)\"""",
)
"""Keys with values in the middle of a line: JSON, inline tables of TOML, Groovy, XML."""
_NAMED_BY_WORD = compile_lazily(r"(?i)\b(?:password|passwd|token|secret)\s+(\S+)")  # as in .netrc
_BUNDLER_KEY = compile_lazily(r"BUNDLE_\w+__\w+")
_PGPASS_LINE = compile_lazily(r"[^:\s]+:(?:\d+|\*):[^:\s]*:[^:\s]*:(\S+)")  # as in .pgpass
_HOST_PASSWORD = compile_lazily(  # as in Postfix's
    r"\[?(?:[\w-]+\.)+[\w-]+\]?(?::\d+)?\s{1,9}[^\s:/]+:([^\s/]\S*)"
)
_WORD = compile_lazily(rf"[\w+/=.~!@#$%^&*-]{{{_SHORTEST_WORD},}}")
_PATH_OR_HOST = compile_lazily(
    r"[./~].*|(?:[\w.+-]+@)?(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?::\d+)?(?:/\S*)?"
)
_COMMENT = ("#", ";", "-----", "<!--")
_SECRET_NAME = compile_lazily(
    r"TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|_KEY(_DATA)?$|APIKEY|_PAT$|^PGPASS"
    r"|(^|_)PASS$|_AUTH(?!OR)",
    re.I,
)
# The names of a limit, of a runner's feature flag, and of a socket.
_NO_SECRETS = frozenset({"NIGHTSHIFT_MAX_TOKENS", "FF_GIT_URLS_WITHOUT_TOKENS", "SSH_AUTH_SOCK"})


def is_secret_name(name: str) -> bool:
    """True if a variable or key with this name usually has a secret value."""
    return name not in _NO_SECRETS and _SECRET_NAME.search(name) is not None


def read_plain_file(path: str, most: int) -> bytes | None:
    """The content of a regular file of up to ``most`` bytes; None for a link, device or pipe."""
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would block (fifo(7)).
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read(most)


def remove_public_parts(text: str) -> str:
    """The text without certificates and public keys."""
    return _PUBLIC_BLOCK.sub("", text).strip()


def find_secrets(text: str) -> list[str]:
    """The probable secrets in a credential file's text, each once."""
    lines = _split_lines(remove_public_parts(text))
    secrets = list(lines) if len(lines) == 1 else []
    for line in lines:
        secrets += [*_find_named_in_line(line), *_find_random_words(line)]
    return [secret for secret in dict.fromkeys(secrets) if len(secret) >= SHORTEST_IN_FILE]


def find_named_secrets(text: str) -> list[str]:
    """Values that a text names as a password or token, or that are passwords in URLs."""
    secrets = itertools.chain.from_iterable(map(_find_named_in_line, _split_lines(text)))
    return [secret for secret in dict.fromkeys(secrets) if len(secret) >= _SHORTEST_NAMED]


def _split_lines(text: str) -> list[str]:
    """The lines of a text; a long one, such as JSON, is split at commas."""
    lines = itertools.chain.from_iterable(
        line.split(",") if len(line) > LONGEST_LINE else [line] for line in text.splitlines()
    )
    return [line.strip()[:LONGEST_LINE] for line in lines if line.strip()]


def _find_named_in_line(line: str) -> Iterator[str]:
    if line.startswith(_COMMENT):
        return
    yield from URL_PASSWORD.findall(line)
    if fields := _PGPASS_LINE.fullmatch(line) or _HOST_PASSWORD.fullmatch(line):
        yield fields[1]
    if not _HINT.search(line):
        return
    for pattern in _MARKED_SECRETS:
        yield from re.findall(pattern, line)
    yield from map(_unquote_value, _NAMED_BY_WORD.findall(line))
    pairs = [pair.groups()] if (pair := _KEY_VALUE.fullmatch(line)) else []
    if '"' in line or "'" in line or "</" in line:
        pairs += itertools.chain.from_iterable(
            re.findall(pattern, line) for pattern in _KEY_VALUE_INSIDE
        )
    for key, value in pairs:
        yield from _find_key_secrets(key, _unquote_value(value))


def _find_key_secrets(key: str, value: str) -> Iterator[str]:
    """The secrets in a value, by its key; for ``name:password`` also the password."""
    if _is_key_of_secret(key) or (key.lower() == "pwd" and value[:1] not in "/$`"):
        yield value
    if _BUNDLER_KEY.fullmatch(key):
        yield from (value, value.rpartition(":")[2])
    if key.lower() == "auth" and ":" in (login := _decode_base64(value)):
        yield from (value, login.partition(":")[2])


def _is_key_of_secret(key: str) -> bool:
    return is_secret_name(key.replace("-", "_"))


def _decode_base64(value: str) -> str:
    try:
        return binascii.a2b_base64(value, strict_mode=True).decode("utf-8")
    except ValueError:
        return ""


def _find_random_words(line: str) -> Iterator[str]:
    pair = _KEY_VALUE.fullmatch(line)
    # A value with the key of a secret is found by ``_find_key_secrets``, as a whole.
    if not line.startswith(_COMMENT) and not (pair and _is_key_of_secret(pair[1])):
        yield from filter(_looks_random, _WORD.findall(pair[2] if pair else line))


def _unquote_value(text: str) -> str:
    """The value of a line of YAML, JSON, XML, or ``key = value``, without its quotes."""
    value = re.sub(r"</[\w.:-]+>$", "", text).rstrip(",; ")
    if value[:1] in ("'", '"') and value[-1:] == value[:1]:
        value = value[1:-1]
    return value.replace("\\n", "\n")


def _looks_random(word: str) -> bool:
    """True for a word of letters and digits that is no path, host or mail address."""
    mixed = re.search(r"\d", word) and re.search(r"[A-Za-z]", word)
    return bool(mixed) and not _PATH_OR_HOST.fullmatch(word) and not word.startswith(_CERTIFICATE)


# --- files that hold secrets, by their names ------------------------------------------------------


_SECRET_FILE = compile_lazily(
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
_DEPENDENCY_FOLDER = compile_lazily(
    r"(^|/)(node_modules|bower_components|site-packages|vendor|third[_-]?party|target|dist)/", re.I
)
_VARIABLE_GROUPS = ("variables", "shell")
"""The groups of ``_SECRET_FILE`` for files with nothing but variables."""


def is_secret_file(path: str) -> bool:
    """True for a file whose name says that it holds credentials."""
    return _SECRET_FILE.search(path) is not None


def is_installed(path: str) -> bool:
    """True for a file of dependencies or build products, whose certificates and keys are public."""
    return _DEPENDENCY_FOLDER.search(path) is not None


def holds_variables(path: str) -> bool:
    """True for a file of environment variables, such as ``.env``."""
    match = _SECRET_FILE.search(path)
    return match is not None and any(match[group] for group in _VARIABLE_GROUPS)
