"""What a secret looks like whoever issued it: tokens by their prefix, values by their place.

The prefixes are those that the issuers document (GitLab: "Token overview"). A body of fewer than
five different characters is a placeholder and stays: ``glpat-xxxxxxxxxxxxxxxxxxxx``.
"""

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from gitlab_nightshift.redaction.finder import (
    Lookahead,
    Needle,
    Place,
    Span,
    charset,
    pairs_of,
    places_of,
)

_ALNUM = string.ascii_letters + string.digits
_FEWEST_CHARACTERS = 5
_LONGEST_PEM = 32_768

# Where a word begins: after an escape (``\n`` in JSON, ``%3D``) too.
_ESCAPED = rb"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=u00[0-9a-fA-F]{2})"
_START = rb"(?:(?<![0-9A-Za-z_])|" + _ESCAPED + rb")"
_JWT_START = rb"(?:(?<![\w-])|" + _ESCAPED + rb")"
_QUOTE = rb"""(?:\\{0,8}["'])?"""
_IS = _QUOTE + rb"[ \t]{0,8}(?:=>|[=:,]|%3[aAdD])[ \t]{0,8}" + _QUOTE
_VALUE = rb"[\w+/=.~%-]"
_WITH_DIGIT = rb"(?=[\w+/=.~%-]{0,40}[0-9])"


@dataclass(frozen=True, eq=False)
class Token:
    """A kind of token: its head, of bounded length, and the characters that it goes on with."""

    anchors: tuple[bytes, ...]
    head: re.Pattern[bytes]
    tail: re.Pattern[bytes]
    once: bool = True

    def spans(self, text: bytes, at: int) -> list[Span]:
        """The token that begins at the anchor; where the head has a group, from the group on."""
        found = self.head.match(text, at)
        if not found:
            return []
        start, end = found.start(found.lastindex or 0), found.end()
        if len(set(text[max(start, end - 20) : end])) < _FEWEST_CHARACTERS:
            return []
        more = self.tail.match(text, end)
        return [(start, more.end() if more else end)]


@dataclass(frozen=True, eq=False)
class UrlPassword:
    """The password in ``https://user:password@host``; a variable's name in its place stays."""

    anchors: tuple[bytes, ...] = ()
    once: bool = True

    def spans(self, text: bytes, at: int) -> list[Span]:
        """The password of the URL whose ``://`` begins at ``at``."""
        found = _URL.match(text, at)
        return [found.span(1)] if found else []


_URL = re.compile(
    rb""":(?:\\{0,8}/){2}[^\s/@:"'<>\\]{0,256}:"""
    rb"(?!(?:\$\w+|\$?\{+[\w. ]+\}+|\[\w+\]|\*+|x+|X+)@)"
    rb"""([^\s/@"'<>\\]{1,8192})@"""
)


@dataclass(frozen=True, eq=False)
class PrivateKey:
    """A PEM block of a private key; without its end, the lines that can only belong to it."""

    anchors: tuple[bytes, ...] = (b"-----BEGIN ",)
    once: bool = True

    def spans(self, text: bytes, at: int) -> list[Span]:
        """The block that begins at ``at``."""
        begin = _BEGIN.match(text, at)
        if not begin:
            return []
        dashes = text.find(b"-----", begin.end(), begin.end() + _LONGEST_PEM)
        end = _END.match(text, dashes) if dashes >= 0 else None
        body = end or _BODY.match(text, begin.end())
        return [(at, body.end() if body else begin.end())]


_NAME = rb" [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN = re.compile(rb"-----BEGIN" + _NAME)
_END = re.compile(rb"-----END" + _NAME)
_BODY = re.compile(rb"(?:(?:\s|\\{1,8}[nrt]){0,8}[0-9A-Za-z+/=]{16,})*")


def _token(anchors: Iterable[str], head: bytes, tail: bytes = b"") -> Token:
    known = tuple(anchor.encode() for anchor in anchors)
    return Token(known, re.compile(head), re.compile(tail))


def _each(start: str, letters: str, end: str, last: str = "") -> list[str]:
    return [f"{start}{a}{end}{b}" for a in letters or [""] for b in last or [""]]


def _written(*names: str) -> list[str]:
    return [case for name in names for case in (name.lower(), name.upper(), name.title())]


_GITLAB = "pat dt rt rtr cbt ptt ft soat imt agent ffct wt oas".split()
_OPENAI = "proj svcacct admin".split()
_OLD_OPENAI = _token((), _START + rb"sk-[0-9A-Za-z]{32}", rb"[0-9A-Za-z]*")
_HEADERS = ("private-token", "feed_token")
_URL_PASSWORD = UrlPassword()

TOKENS: tuple[Needle, ...] = (
    _token(
        [f"gl{kind}-{last}" for kind in _GITLAB for last in f"{_ALNUM}_-"],
        rb"gl(?:%s)-[\w-]{20}" % "|".join(_GITLAB).encode(),
        rb"[\w-]*(?:\.[0-9a-z]{2,})*",
    ),
    _token(["GR1348941"], rb"GR1348941[\w-]{20}", rb"[\w-]*"),
    _token(["sk-ant-"], rb"sk-ant-[\w-]{20}", rb"[\w-]*"),
    _token(
        [f"sk-{kind}-" for kind in _OPENAI],
        rb"sk-(?:%s)-[\w-]{20}" % "|".join(_OPENAI).encode(),
        rb"[\w-]*",
    ),
    _OLD_OPENAI,
    _token(_each("gh", "oprsu", "_", _ALNUM), rb"gh[oprsu]_[0-9A-Za-z]{36}", rb"[0-9A-Za-z]*"),
    _token(["github_pat_"], rb"github_pat_\w{22}", rb"\w*"),
    _token(_each("xox", "abcdeoprs", "-"), rb"xox[abcdeoprs]-[0-9A-Za-z-]{10}", rb"[\w.-]*"),
    _token(
        _each("A", "KS", "IA", string.ascii_uppercase + string.digits),
        _START + rb"A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])",
    ),
    _token(
        ["secret_access_key", "SECRET_ACCESS_KEY", "ecretAccessKey"],
        rb"(?i:s?ecret_?access_?key)" + _IS + rb"([0-9A-Za-z/+]{40})(?![0-9A-Za-z/+])",
    ),
    _token(["AIza"], _START + rb"AIza[\w-]{35}", rb"[\w-]*"),
    _token(
        _each("ey", "J", "", _ALNUM),
        _JWT_START + rb"eyJ[\w-]{5,4096}\.eyJ[\w-]{5}",
        rb"[\w-]*(?:\.[\w-]*)?",
    ),
    _token(
        _written("authorization"),
        rb"(?i:authorization)" + _IS + rb"(?i:bearer|basic|token)[ +]{1,8}(" + _VALUE + rb"{8})",
        _VALUE + rb"*",
    ),
    _token(
        _written(*_HEADERS),
        rb"(?i:%s)" % "|".join(_HEADERS).encode() + _IS + _WITH_DIGIT + rb"(" + _VALUE + rb"{20})",
        _VALUE + rb"*",
    ),
    PrivateKey(),
)


@cache
def token_places() -> tuple[Place, ...]:
    """The places of all tokens: the same for every job."""
    return tuple(places_of(TOKENS))


@cache
def lookaheads() -> tuple[Lookahead, ...]:
    """What can only be told by more than the rare pairs of an anchor."""
    return tuple(_lookaheads())


def _lookaheads() -> Iterator[Lookahead]:
    alnum = _ALNUM.encode()
    words = charset(pairs_of(alnum, alnum))
    dashed = charset(pairs_of(b"-", alnum))
    yield Lookahead(b"sk", 0, _OLD_OPENAI, f"{dashed}{words}{{15}}")
    yield Lookahead(b"k-", 1, _OLD_OPENAI, f"{words}{{15}}")
    stop = b"\"'/<>@\\ \t\r\n"
    at = pairs_of(b"@", range(128)) | pairs_of(set(range(128)) - set(stop), b"@")
    within = charset(pairs_of(stop, range(256)) | pairs_of(range(256), stop), but=True)
    userinfo = f"{within}{{0,4500}}{charset(at)}"
    yield Lookahead(b":/", 0, _URL_PASSWORD, f".{userinfo}")
    yield Lookahead(b"//", 1, _URL_PASSWORD, userinfo)
    yield Lookahead(b":\\", 0, _URL_PASSWORD, charset(pairs_of(b"/", b"\\")))
    yield Lookahead(b"\\/", 1, _URL_PASSWORD, charset(pairs_of(b"\\", b"/")))
