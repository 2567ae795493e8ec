"""What is secret in a text that holds credentials: files of the runner, of tools, of a home.

What of a file is secret cannot be known. Taken are values whose key says so, words that look made
at random, the body of private keys, and what stands alone: not every line, since texts that leave
would lose ``apiVersion: v1`` too. Certificates and public keys are none. Standard library alone.
"""

import os
import re
import stat
from collections.abc import Iterator

LARGEST = 64 * 1024
"""Bytes of a file; in larger ones, such as bundles of certificates, nothing is looked for."""
SHORTEST = 8
_SHORTEST_NAMED = 4
LONGEST_LINE = 4096
"""Characters: what a line says is found in time that grows with the square of them."""
_SHORTEST_WORD = 16
_PUBLIC = re.compile(
    r"-----BEGIN ([A-Z0-9 ]*(?:CERTIFICATE|PUBLIC KEY|CRL|REQUEST)[A-Z ]*)-----.*?-----END \1-----",
    re.DOTALL,
)
_CERTIFICATE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS"  # base64 of the beginning of one
_PAIR = re.compile(r"""(?:export\s|[\s"'<-])*([\w.@/:-]*[\w-])["']?\s*(?:=>|[:=>])\s*(\S.*)""")
IN_ADDRESS = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_SPOKEN = re.compile(r"(?i)\b(?:password|passwd|token|secret)\s+(\S+)")  # as in .netrc
_FIELDS = re.compile(r"[^:\s]+:(?:\d+|\*):[^:\s]*:[^:\s]*:(\S+)")  # as in .pgpass
_WORD = re.compile(rf"[\w+/=.~!@#$%^&*-]{{{_SHORTEST_WORD},}}")
_PLAIN = re.compile(r"[./~].*|(?:[\w.+-]+@)?(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?::\d+)?(?:/\S*)?")
_COMMENT = ("#", ";", "-----", "<!--")
_SECRET_NAME = re.compile(
    r"TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|_KEY$|APIKEY|_PAT$|^PGPASS|_AUTH(?!OR)",
    re.I,
)
_NO_SECRETS = frozenset({"NIGHTSHIFT_MAX_TOKENS", "FF_GIT_URLS_WITHOUT_TOKENS", "SSH_AUTH_SOCK"})


def is_secret_name(name: str) -> bool:
    """True where the name of a variable or of a key says that its value is a secret."""
    return name not in _NO_SECRETS and _SECRET_NAME.search(name) is not None


def plain_file(path: str, most: int) -> bytes | None:
    """The bytes of a file, None for a larger one: never a link, a device or a pipe."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    state = os.fstat(fd)
    if not stat.S_ISREG(state.st_mode) or state.st_size > most:
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read(most)


def without_public(text: str) -> str:
    """The text without certificates and public keys."""
    return _PUBLIC.sub("", text).strip()


def secrets_in(text: str) -> list[str]:
    """The parts of a credential file's text that are taken for secrets, each once."""
    lines = _lines(without_public(text))
    found = list(lines) if len(lines) == 1 else []
    for line in lines:
        found += [*_named(line), *_random(line)]
    return [each for each in dict.fromkeys(found) if len(each) >= SHORTEST]


def named_secrets(text: str) -> list[str]:
    """What a text itself calls a password or a token, or gives as one in an address."""
    found = (each for line in _lines(text) for each in _named(line))
    return [each for each in dict.fromkeys(found) if len(each) >= _SHORTEST_NAMED]


def _lines(text: str) -> list[str]:
    return [line.strip()[:LONGEST_LINE] for line in text.splitlines() if line.strip()]


def _named(line: str) -> Iterator[str]:
    if line.startswith(_COMMENT):
        return
    yield from IN_ADDRESS.findall(line)
    yield from _SPOKEN.findall(line)
    if fields := _FIELDS.fullmatch(line):
        yield fields[1]
    if pair := _secret_pair(line):
        yield _value(pair[2])


def _random(line: str) -> Iterator[str]:
    if not line.startswith(_COMMENT) and not _secret_pair(line):
        pair = _PAIR.fullmatch(line)
        yield from filter(_looks_random, _WORD.findall(pair[2] if pair else line))


def _secret_pair(line: str) -> re.Match[str] | None:
    pair = _PAIR.fullmatch(line)
    return pair if pair and is_secret_name(pair[1].replace("-", "_")) else None


def _value(text: str) -> str:
    """The value of a line of YAML, JSON, XML, or ``key = value``, without its quotes."""
    bare = re.sub(r"</[\w.:-]+>$", "", text).rstrip(",; ")
    if bare[:1] in ("'", '"') and bare[-1:] == bare[:1]:
        bare = bare[1:-1]
    return bare.replace("\\n", "\n")


def _looks_random(word: str) -> bool:
    """Letters and digits in one word, which is no path, host or mail address."""
    mixed = re.search(r"\d", word) and re.search(r"[A-Za-z]", word)
    return bool(mixed) and not _PLAIN.fullmatch(word) and not word.startswith(_CERTIFICATE)
