"""Secrets in the job's variables of type file: the runner writes those below ``<project>.tmp``.

What of a file is secret cannot be known. Taken are values whose key says so, words that look made
at random, the body of private keys, and what stands alone: not every line, since texts that leave
would lose ``apiVersion: v1`` too. Certificates and public keys are none.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping

LARGEST = 64 * 1024
"""Bytes of a file; in larger ones, such as bundles of certificates, nothing is looked for."""
LARGEST_WHOLE = 8 * 1024
MOST_VALUES = 100
"""Values of all files together: each costs time at every byte of a log."""
SHORTEST = 8
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

TRIGGER_PAYLOAD = "TRIGGER_PAYLOAD"
"""The body of the call that triggered the pipeline: comments and addresses, no secret."""

IsSecret = Callable[[str], bool]


def file_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Name → path of the variables whose value is a file that the runner wrote for this job."""
    project = env.get("CI_PROJECT_DIR", "").rstrip("/")
    if not project.startswith("/"):
        return {}
    return {name: path for name, path in env.items() if path == f"{project}.tmp/{name}"}


def file_values(env: Mapping[str, str], is_secret: IsSecret) -> list[str]:
    """What is secret in these files; ``is_secret`` judges the name of a variable or a key."""
    found: dict[str, None] = {}
    for name, path in sorted(file_variables(env).items()):
        if name == TRIGGER_PAYLOAD:
            continue
        text = _PUBLIC.sub("", _content(path)).strip()
        if is_secret(name) and len(text) <= LARGEST_WHOLE:
            found[text] = None
        found |= dict.fromkeys(secret_parts(text, is_secret))
    return [each for each in found if len(each) >= SHORTEST][:MOST_VALUES]


def _content(path: str) -> str:
    """The text of a small file, "" for another."""
    return (plain_file(path, LARGEST) or b"").decode("utf-8", "replace")


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


def secret_parts(text: str, is_secret: IsSecret) -> Iterator[str]:
    """The parts of a file's text that are taken for secrets."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 1:
        yield lines[0]
    for line in lines:
        if line.startswith(_COMMENT):
            continue
        yield from IN_ADDRESS.findall(line)
        yield from _SPOKEN.findall(line)
        if fields := _FIELDS.fullmatch(line):
            yield fields[1]
        pair = _PAIR.fullmatch(line)
        if pair and is_secret(pair[1].replace("-", "_")):
            yield _value(pair[2])
        else:
            yield from filter(_looks_random, _WORD.findall(pair[2] if pair else line))


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
