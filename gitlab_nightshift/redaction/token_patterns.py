"""Secrets that are recognized by their form: tokens by a prefix, other values by the words before
them.

A token with fewer than five different characters, such as ``glpat-xxxxxxxxxxxxxxxxxxxx``, is a
placeholder, and is not redacted.
"""

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from gitlab_nightshift.redaction.needle_finder import (
    Lookahead,
    Needle,
    SearchKey,
    Span,
    build_charset,
    combine_pairs,
    list_search_keys,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_ALNUM = string.ascii_letters + string.digits
_FEWEST_CHARACTERS = 5  # different ones in a token; a placeholder has fewer
_LONGEST_PEM = 32_768  # bytes

# The beginning of a word, which may follow an escape (``\n`` in JSON, ``%3D``).
_ESCAPED = rb"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=u00[0-9a-fA-F]{2})"
_START = rb"(?:(?<![0-9A-Za-z_])|" + _ESCAPED + rb")"
_JWT_START = rb"(?:(?<![\w-])|" + _ESCAPED + rb")"
_QUOTE = rb"""(?:\\{0,8}["'])?"""
# What is between a name and its value in JSON, YAML, headers, assignments, Ruby hashes and URLs.
_SEP = _QUOTE + rb"[ \t]{0,8}(?:=>|[=:,]|%3[aAdD])[ \t]{0,8}" + _QUOTE
_VALUE = rb"[\w+/=.~%-]"
# A value without a digit is rather words: "private-token: your-personal-access-token".
_WITH_DIGIT = rb"(?=[\w+/=.~%-]{0,40}[0-9])"


@dataclass(frozen=True, eq=False)
class TokenKind:
    """A kind of token: a ``head`` of bounded length, and a ``tail`` of any length. Without
    ``anchors`` it is found by its lookaheads (``_build_lookaheads``)."""

    name: str
    anchors: tuple[bytes, ...]
    head: re.Pattern[bytes]
    tail: re.Pattern[bytes]
    example: bytes
    skips_inside: bool = True

    def find_spans(self, text: bytes, at: int) -> list[Span]:
        """The token at ``at``; if the head's pattern has a group, the token begins at the group."""
        head = self.head.match(text, at)
        if not head:
            return []
        start, end = head.start(head.lastindex or 0), head.end()
        if len(set(text[max(start, end - 20) : end])) < _FEWEST_CHARACTERS:
            return []
        tail = self.tail.match(text, end)
        return [(start, tail.end() if tail else end)]


@dataclass(frozen=True, eq=False)
class UrlPassword:
    """The password in ``https://user:password@host``, unless it is a placeholder."""

    anchors: tuple[bytes, ...] = ()
    skips_inside: bool = True

    def find_spans(self, text: bytes, at: int) -> list[Span]:
        """The password of the URL whose ``://`` begins at ``at``."""
        match = _URL.match(text, at)
        return [match.span(1)] if match else []


PLACEHOLDERS = (
    ("variable of a shell", rb"\$\w+", b"$CI_JOB_TOKEN"),
    ("variable of a shell or a template, in braces", rb"\$?\{+[\w. ]+\}+", b"{{.Values.token}}"),
    ("masked by a runner", rb"\[\w+\]", b"[MASKED]"),
    ("masked by a tool", rb"\*+", b"***"),
    ("crossed out", rb"x+|X+", b"xxxx"),
)
"""Placeholders for a password: description, pattern, example."""
_URL = compile_lazily(
    rb""":(?:\\{0,8}/){2}[^\s/@:"'<>\\]{0,256}:"""
    rb"(?!(?:" + b"|".join(pattern for _, pattern, _ in PLACEHOLDERS) + rb")@)"
    rb"""([^\s/@"'<>\\]{1,8192})@"""
)


@dataclass(frozen=True, eq=False)
class PrivateKey:
    """A PEM block of a private key; without an end line, all that looks like base64."""

    anchors: tuple[bytes, ...] = (b"-----BEGIN ",)
    skips_inside: bool = True

    def find_spans(self, text: bytes, at: int) -> list[Span]:
        """The block that begins at ``at``."""
        begin = _BEGIN.match(text, at)
        if not begin:
            return []
        dashes = text.find(b"-----", begin.end(), begin.end() + _LONGEST_PEM)
        end = _END.match(text, dashes) if dashes >= 0 else None
        body = end or _BODY.match(text, begin.end())
        return [(at, body.end() if body else begin.end())]


_NAME = rb" [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN = compile_lazily(rb"-----BEGIN" + _NAME)
_END = compile_lazily(rb"-----END" + _NAME)
_BODY = compile_lazily(rb"(?:(?:\s|\\{1,8}[nrt]){0,8}[0-9A-Za-z+/=]{16,})*")


def _build_token(
    name: str, anchors: Iterable[str], head: bytes, tail: bytes, example: str
) -> TokenKind:
    patterns = compile_lazily(head), compile_lazily(tail)
    return TokenKind(
        name, tuple(anchor.encode() for anchor in anchors), *patterns, example.encode()
    )


def _combine_prefixes(start: str, letters: str, end: str, last: str = "") -> list[str]:
    return [f"{start}{a}{end}{b}" for a in letters or [""] for b in last or [""]]


def _list_case_variants(*names: str) -> list[str]:
    return [case for name in names for case in (name.lower(), name.upper(), name.title())]


_GITLAB = "pat dt rt rtr cbt ptt ft soat imt agent ffct wt oas".split()
_OPENAI = "proj svcacct admin".split()
_HEADERS = ("private-token", "feed_token")
_URL_PASSWORD = UrlPassword()
_FILL = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Fills up the examples, so that secret scanners find none of them in this file."""

# "sk-" and 48 letters or digits, without a middle: what OpenAI issued before it had projects.
_OLD_OPENAI = _build_token(
    "OpenAI, before projects",
    (),
    _START + rb"sk-[0-9A-Za-z]{32}",
    rb"[0-9A-Za-z]*",
    f"sk-{_FILL[:48]}",
)

TOKENS: tuple[Needle, ...] = (
    # GitLab's "Token overview" lists the prefixes; routable tokens go on with dots.
    _build_token(
        "GitLab",
        [f"gl{kind}-{last}" for kind in _GITLAB for last in f"{_ALNUM}_-"],
        rb"gl(?:%s)-[\w-]{20}" % "|".join(_GITLAB).encode(),
        rb"[\w-]*(?:\.[0-9a-z]{2,})*",
        f"glpat-{_FILL[:27]}.01.0w1abcdef",
    ),
    _build_token(  # also in that overview
        "GitLab, runner registration",
        ["GR1348941"],
        rb"GR1348941[\w-]{20}",
        rb"[\w-]*",
        f"GR1348941{_FILL[:20]}",
    ),
    # Keys of the API (api03), of administrators, and OAuth tokens of subscriptions (oat01, ort01).
    _build_token(
        "Anthropic", ["sk-ant-"], rb"sk-ant-[\w-]{20}", rb"[\w-]*", f"sk-ant-api03-{_FILL}-AA"
    ),
    _build_token(
        "OpenAI",
        [f"sk-{kind}-" for kind in _OPENAI],
        rb"sk-(?:%s)-[\w-]{20}" % "|".join(_OPENAI).encode(),
        rb"[\w-]*",
        f"sk-proj-{_FILL}",
    ),
    _OLD_OPENAI,
    # "Token formats" in GitHub's documentation: personal, OAuth, user, server, refresh.
    _build_token(
        "GitHub",
        _combine_prefixes("gh", "oprsu", "_", _ALNUM),
        rb"gh[oprsu]_[0-9A-Za-z]{36}",
        rb"[0-9A-Za-z]*",
        f"ghp_{_FILL[:36]}",
    ),
    _build_token(  # also in that list
        "GitHub, fine-grained",
        ["github_pat_"],
        rb"github_pat_\w{22}",
        rb"\w*",
        f"github_pat_{_FILL[:22]}_{_FILL[:59]}",
    ),
    # "Token types" in Slack's documentation, and older ones.
    _build_token(
        "Slack",
        _combine_prefixes("xox", "abcdeoprs", "-"),
        rb"xox[abcdeoprs]-[0-9A-Za-z-]{10}",
        rb"[\w.-]*",
        f"xoxb-123456789012-{_FILL[:24]}",
    ),
    # "Unique ID prefixes" of IAM: a key that lasts, and one of a session. Always 20 characters.
    _build_token(
        "AWS, key id",
        _combine_prefixes("A", "KS", "IA", string.ascii_uppercase + string.digits),
        _START + rb"A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])",
        b"",
        f"AKIA{_FILL[:16]}",
    ),
    # The secret of that key has no prefix: 40 characters after the name that all AWS tools use.
    _build_token(
        "AWS, secret",
        ["secret_access_key", "SECRET_ACCESS_KEY", "ecretAccessKey"],
        rb"(?i:s?ecret_?access_?key)" + _SEP + rb"([0-9A-Za-z/+]{40})(?![0-9A-Za-z/+])",
        b"",
        f"aws_secret_access_key = {_FILL[:40]}",
    ),
    # "AIza" and 35 characters: the keys of Google's APIs.
    _build_token("Google", ["AIza"], _START + rb"AIza[\w-]{35}", rb"[\w-]*", f"AIza{_FILL[:35]}"),
    # RFC 7519: JSON in base64, so each part begins with what `{"` becomes. CI_JOB_JWT, ID tokens.
    _build_token(
        "JSON Web Token",
        _combine_prefixes("ey", "J", "", _ALNUM),
        _JWT_START + rb"eyJ[\w-]{5,4096}\.eyJ[\w-]{5}",
        rb"[\w-]*(?:\.[\w-]*)?",
        f"eyJ{_FILL[:17]}.eyJ{_FILL[:17]}.{_FILL[:43]}",
    ),
    # RFC 7235: a request as tools print it in their debug output.
    _build_token(
        "Authorization",
        _list_case_variants("authorization"),
        rb"(?i:authorization)" + _SEP + rb"(?i:bearer|basic|token)[ +]{1,8}(" + _VALUE + rb"{8})",
        _VALUE + rb"*",
        f"Authorization: Bearer {_FILL[:20]}",
    ),
    # GitLab's header and the parameter of its feeds: an instance may have set another token prefix.
    _build_token(
        "GitLab, by its place",
        _list_case_variants(*_HEADERS),
        rb"(?i:%s)" % "|".join(_HEADERS).encode() + _SEP + _WITH_DIGIT + rb"(" + _VALUE + rb"{20})",
        _VALUE + rb"*",
        f"PRIVATE-TOKEN: {_FILL[:20]}",
    ),
    PrivateKey(),
)


@cache
def list_token_keys() -> tuple[SearchKey, ...]:
    """The search keys of all tokens, which are the same for every job."""
    return tuple(list_search_keys(TOKENS))


@cache
def list_lookaheads() -> tuple[Lookahead, ...]:
    """The lookaheads of the needles without anchors."""
    return tuple(_build_lookaheads())


def _build_lookaheads() -> Iterator[Lookahead]:
    # {15} pairs are 30 of the 32 characters or more of a token of _OLD_OPENAI.
    alnum = _ALNUM.encode()
    words = build_charset(combine_pairs(alnum, alnum))
    dashed = build_charset(combine_pairs(b"-", alnum))
    yield Lookahead(b"sk", 0, _OLD_OPENAI, f"{dashed}{words}{{15}}")
    yield Lookahead(b"k-", 1, _OLD_OPENAI, f"{words}{{15}}")
    # Roughly _URL: user and password without these bytes, then an "@". 4,500 pairs are more than
    # the 256 and 8,192 bytes that they may have.
    stop = b"\"'/<>@\\ \t\r\n"
    at = combine_pairs(b"@", range(128)) | combine_pairs(set(range(128)) - set(stop), b"@")
    within = build_charset(
        combine_pairs(stop, range(256)) | combine_pairs(range(256), stop), negated=True
    )
    userinfo = f"{within}{{0,4500}}{build_charset(at)}"
    yield Lookahead(b":/", 0, _URL_PASSWORD, f".{userinfo}")
    yield Lookahead(b"//", 1, _URL_PASSWORD, userinfo)
    yield Lookahead(b":\\", 0, _URL_PASSWORD, build_charset(combine_pairs(b"/", b"\\")))
    yield Lookahead(b"\\/", 1, _URL_PASSWORD, build_charset(combine_pairs(b"\\", b"/")))
