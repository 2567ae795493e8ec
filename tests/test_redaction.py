"""Secrets are redacted in any form and however a stream is cut; other text stays as it is."""

import base64
import html
import itertools
import json
import os
import random
import re
import shlex
import string
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.redaction import token_patterns
from gitlab_nightshift.redaction.needle_finder import Finder, find_windows
from gitlab_nightshift.redaction.redactor import (
    REDACTED,
    RedactedStream,
    Redactor,
    find_escaped_spans,
    refuse_secrets,
)
from gitlab_nightshift.redaction.token_patterns import TokenKind, list_lookaheads, list_token_keys

X = REDACTED
ALNUM = string.ascii_letters + string.digits
VALUES = (
    "hunter2",
    "S3cr-t",
    "glpat-Ab3dEf9hIjKlMnOpQrSt",
    "k#9$vL!2@xQ&",
    "p+s/=w?rd word",
    'it\'s "quoted" \\ here',
    "pässwörd-ключ-🔑",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY",
    "line one of it\nline two of it\n",
)
REDACT = Redactor(VALUES)
TOKENS_ONLY = Redactor(())
FEW_EXAMPLES = 40  # examples of what needs a redactor of its own
SAFE = "A line of a log, as it is: 100% done (3 of 3)."


def find_wrong(redact: Redactor, cases: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The texts that are not redacted as expected, with the result."""
    return [(text, left) for text, expected in cases if (left := redact(text)) != expected]


# --- values ---------------------------------------------------------------------------------------


VALUES_IN_TEXTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    ((), "a secret", "a secret"),
    (("",), "a secret", "a secret"),
    (("", "secret7"), "a secret7", "a X"),
    (("abcdef", "abcdefghi"), "abcdefghi abcdef", "X X"),
    (("abcdefgh", "efghijkl"), "-abcdefghijkl-", "-X-"),
    (("abcXabc",), "abcXabcXabc", "X"),
    (("abcdef",), "abcdefabcdef", "XX"),
    (
        ("a.cdef", "x|yyyyy", "((((((", "\\d\\d\\d"),
        "abcdef a.cdef x|yyyyy (((((( 555 \\d\\d\\d",
        "abcdef X X X 555 X",
    ),
    (("  padded value \n",), "a padded value b", "a X b"),
    (("x\udcffyyyyy",), "an x\udcffyyyyy", "an X"),
    (("x\ud800yyyyy",), "an x\ud800yyyyy", "an X"),
    (("\udcc3\udcc3\udcc3\udcc3\udcc3\udcc3",), "\ud800 stays", "\ud800 stays"),
)


def test_values_in_a_text() -> None:
    failures = [
        (values, text, left)
        for values, text, expected in VALUES_IN_TEXTS
        if (left := Redactor(values)(text)) != expected.replace("X", X)
    ]
    assert failures == []


def test_only_distinctive_values_are_redacted() -> None:
    stay = ("", "abcde", "1234567", "postgres", "MASTER", "Password", "true")
    go = ("abcdef", "12345678", "postgres1", "------")
    assert [v for v in stay if Redactor((v,))(f"a {v} b") != f"a {v} b"] == []
    assert [v for v in go if Redactor((v,))(f"a {v} b") != f"a {X} b"] == []


def test_each_line_of_a_value_is_redacted() -> None:
    redact = Redactor(
        ("-----BEGIN THING-----\nfirst line\n  second=line\nshort\n-----END THING-----",)
    )
    assert redact("the first line and second=line") == f"the {X} and {X}"
    assert redact("short -----BEGIN THING-----") == "short -----BEGIN THING-----"


def test_a_redactor_does_not_show_its_values() -> None:
    assert "hunter2" not in repr(Redactor(("hunter2",)))


# --- forms ----------------------------------------------------------------------------------------


def _upper_escapes(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _unicode(text: str) -> str:
    units = text.encode("utf-16-be").hex(" ", 2).split()
    return "".join(f"\\u{unit}" for unit in units)


FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "json": lambda v: json.dumps(v)[1:-1],
    "json, not ASCII": lambda v: json.dumps(v, ensure_ascii=False)[1:-1],
    "json, slashes": lambda v: json.dumps(v)[1:-1].replace("/", "\\/"),
    "json in json": lambda v: json.dumps(json.dumps(v))[3:-3],
    "unicode escapes": _unicode,
    "shell": lambda v: shlex.quote(v).strip("'"),
    "html": html.escape,
    "url": lambda v: quote(v, safe=""),
    "url, slashes": lambda v: quote(v, safe="/"),
    "url, lower case": lambda v: re.sub("%..", lambda m: m[0].lower(), quote(v, safe="")),
    "encodeURIComponent": lambda v: quote(v, safe="!'()*"),
    "encodeURI": lambda v: quote(v, safe="!#$&'()*+,/:;=?@"),
    "form": quote_plus,
    "every byte escaped": _upper_escapes,
    "every byte escaped, lower case": lambda v: _upper_escapes(v).lower(),
    "hex": lambda v: v.encode().hex(),
    "hex, upper case": lambda v: v.encode().hex().upper(),
    "hex, colons": lambda v: v.encode().hex(":"),
    "hex, spaces": lambda v: v.encode().hex(" ").upper(),
    "base64": lambda v: base64.b64encode(v.encode()).decode(),
    "base64, URL-safe": lambda v: base64.urlsafe_b64encode(v.encode()).decode(),
    "base64, no padding": lambda v: base64.b64encode(v.encode()).decode().rstrip("="),
    "base64 in a URL": lambda v: quote(base64.b64encode(v.encode()).decode(), safe=""),
    "base64 in JSON": lambda v: base64.b64encode(v.encode()).decode().replace("/", "\\/"),
    "base64, wrapped": lambda v: "\n".join(_wrapped(base64.b64encode(v.encode()).decode(), 20)),
}


def _wrapped(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def test_every_form_of_a_value_is_redacted() -> None:
    around = (("", ""), ("a ", " b"), ('{"x": "', '"}'), ("x=", "&y=1"), ("«", "»"))
    failures = [
        (form, value, before)
        for (form, write), value in itertools.product(FORMS.items(), map(str.strip, VALUES))
        for before, after in around
        if REDACT(f"{before}{write(value)}{after}") != f"{before}{X}{after}"
    ]
    assert failures == []


def test_base64_of_a_longer_text() -> None:
    """No three characters of the result can be decoded to a part of the value."""
    cases = itertools.product(
        map(str.strip, VALUES),
        ("", "u", "us", "use", "gitlab-ci-token"),
        ("", "\n", "@host", "@host:8080/path"),
        (base64.b64encode, base64.urlsafe_b64encode),
    )
    assert [case for case in cases if _leaves_a_part(*case)] == []


def _leaves_a_part(value: str, user: str, rest: str, encode: Callable[[bytes], bytes]) -> bool:
    whole = encode(f"{user}:{value}{rest}".encode()).decode()
    before, found, after = REDACT(f"Basic {whole} ").removeprefix("Basic ").partition(X)
    secret_at = len(f"{user}:".encode()) * 8
    left = len(after.strip().rstrip("="))
    end = (len(whole.rstrip("=")) - left) * 6
    return not found or len(before) * 6 > secret_at or end < secret_at + len(value.encode()) * 8


def test_unnecessary_escapes_hide_nothing() -> None:
    texts = (
        "%68unter2",
        "h%75nter%32",
        "hu\\u006eter2",
        "\\u0068unter%32",
        "glp%61t%2DAb3dEf9hIjKl%4dnOpQrSt",
        "k%239%24vL%212@%78Q&",
    )
    assert find_wrong(REDACT, ((f"a {text} b", f"a {X} b") for text in texts)) == []


# --- tokens ---------------------------------------------------------------------------------------

BODY = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hI5kL7n"
TOKENS = (
    *(f"gl{kind}-{BODY[:20]}" for kind in "pat dt rt rtr ptt ft soat imt agent ffct".split()),
    f"glcbt-64_{BODY[:20]}",
    f"glpat-{BODY[:27]}.01.0w1abcdef",
    f"GR1348941{BODY[:20]}",
    f"sk-ant-api03-{BODY}_{BODY}-AA",
    f"sk-ant-oat01-{BODY}",
    f"sk-proj-{BODY}",
    f"sk-svcacct-{BODY}-{BODY}",
    f"sk-{BODY}",
    *(f"gh{kind}_{BODY[:36]}" for kind in "oprsu"),
    f"github_pat_{BODY[:22]}_{BODY}",
    f"xoxb-123456789012-{BODY[:24]}",
    f"xoxp-{BODY[:24]}",
    "AKIAQ3EGUV6GRB5MN7XK",
    "ASIAQ3EGUV6GRB5MN7XK",
    f"AIzaSy{BODY[:33]}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{BODY}",
)


def test_a_placeholder_for_a_password_stays() -> None:
    for name, pattern, text in token_patterns.PLACEHOLDERS:
        url = b"https://u:" + text + b"@host/x"
        known = [kind for kind, each, _ in token_patterns.PLACEHOLDERS if re.fullmatch(each, text)]
        assert (TOKENS_ONLY(url), known) == (url, [name]), pattern
        assert TOKENS_ONLY(url.replace(b"@", b"!@")) == f"https://u:{X}@host/x".encode(), name


AROUND = (
    *(("", ""), (" ", " "), ('"', '"'), ("token=", "&"), ("TOKEN: ", "\n"), ("(", ")")),
    *(("\\n", "\\n"), ("%3D", "%26"), ("\\u003d", "\\u0026"), ("https://", "@host/")),
    ("é", "é"),
)


def test_each_kind_of_token_finds_its_own_example() -> None:
    kinds = [kind for kind in token_patterns.TOKENS if isinstance(kind, TokenKind)]
    assert len({kind.name for kind in kinds}) == len(kinds) == 14
    for kind in kinds:
        start = min((at for a in kind.anchors if (at := kind.example.find(a)) >= 0), default=0)
        [(first, last)] = kind.find_spans(kind.example, start)
        assert last == len(kind.example), kind.name
        assert TOKENS_ONLY(kind.example) == kind.example[:first] + X.encode(), kind.name


def test_each_token_is_redacted_between_any_neighbours() -> None:
    places = itertools.product(TOKENS, AROUND)
    cases = ((f"{start}{token}{end}", f"{start}{X}{end}") for token, (start, end) in places)
    assert find_wrong(TOKENS_ONLY, cases) == []


CONTEXTS = (
    ("https://user:hunter2@example.com/x", "https://user:X@example.com/x"),
    ("https://:hunter2@example.com", "https://:X@example.com"),
    ("git+ssh://user:a@b", "git+ssh://user:X@b"),
    ("xpostgres://u:p%40ss:w0rd@db:5432", "xpostgres://u:X@db:5432"),
    ("https:\\/\\/user:hunter2@example.com", "https:\\/\\/user:X@example.com"),
    ("xhttps:\\/\\/user:hunter2@example.com", "xhttps:\\/\\/user:X@example.com"),
    ("Authorization: Bearer abc.def-123", "Authorization: Bearer X"),
    ('{"authorization": "Basic dXNlcjpwYXNz"}', '{"authorization": "Basic X"}'),
    ('\\"Authorization\\": \\"token abcdef123\\"', '\\"Authorization\\": \\"token X\\"'),
    (f"PRIVATE-TOKEN: {BODY}", "PRIVATE-TOKEN: X"),
    (f"/-/user.atom?feed_token={BODY[:20]}", "/-/user.atom?feed_token=X"),
    (f"aws_secret_access_key = {BODY}", "aws_secret_access_key = X"),
    (f'"SecretAccessKey": "{BODY}",', '"SecretAccessKey": "X",'),
    (f"AWS_SECRET_ACCESS_KEY={BODY}\n", "AWS_SECRET_ACCESS_KEY=X\n"),
)


def test_values_are_secret_by_their_context() -> None:
    cases = [(text, expected.replace("X", X)) for text, expected in CONTEXTS]
    assert find_wrong(TOKENS_ONLY, cases) == []
    assert find_wrong(TOKENS_ONLY, ((f" {text}", f" {expected}") for text, expected in cases)) == []


def test_private_keys() -> None:
    kinds = ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")
    newlines = ("\n", "\r\n", "\\n", "\\\\n", "\n10:02 key: ")
    keys = itertools.starmap(_private_key, itertools.product(kinds, newlines))
    assert find_wrong(TOKENS_ONLY, ((f"a {key} b", f"a {X} b") for key in keys)) == []


def _private_key(kind: str, newline: str) -> str:
    lines = [f"-----BEGIN {kind}PRIVATE KEY-----", *[BODY + BODY[:24]] * 20, "MIIE="]
    return newline.join([*lines, f"-----END {kind}PRIVATE KEY-----"])


def test_a_private_key_without_an_end() -> None:
    text = f"-----BEGIN PRIVATE KEY-----\n{BODY}{BODY[:24]}\n{BODY}{BODY[:24]}\nand more text"
    assert TOKENS_ONLY(text) == f"{X}\nand more text"
    begin = "-----BEGIN PRIVATE KEY-----\n"
    assert TOKENS_ONLY(f"{begin}{begin}x") == f"{X}\n{X}\nx"


HONEST = (
    "",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b (HEAD -> main)",
    "index 3f78685..e387550 100644",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sha512-" + base64.b64encode(bytes(range(64))).decode(),
    "data:image/png;base64," + base64.b64encode(random.Random(1).randbytes(3000)).decode(),
    "glpat-xxxxxxxxxxxxxxxxxxxx glpat-XXXXXXXXXXXXXXXXXXXX glpat-<your-token> glpat-$TOKEN",
    "sk-... sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-ant-... sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx",
    "AKIAXXXXXXXXXXXXXXXX ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "the risk-assessment-of-something-quite-long-and-more and task-0123456789",
    "mask-abcdefghijklmnopqrstuvwxyz0123456789",
    "class='sk-folding-cube-animation-wrapper-element'",
    "https://example.com:8080/a@b https://user@example.com ssh://git@host:22/x.git",
    "https://oauth2:${TOKEN}@host https://u:$CI_JOB_TOKEN@host https://u:[MASKED]@host",
    "https://registry.npmjs.org/@types/node/-/node-20.1.0.tgz http://x/ a:b@c",
    "Authorization: Bearer $TOKEN, Authorization: Bearer <token>, authorization: required",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE----- -----BEGIN PUBLIC KEY-----",
    "aws_secret_access_key = os.environ['X']; private_token: str; feed_token = None",
    "eyJhbGciOiJIUzI1NiJ9 keyJoin.eyJack eyJ",
    "%20 %2F 100%41 50% %s %d \\u003c \\u0041 \\n \\\\ %",
)


def test_honest_text_stays() -> None:
    assert find_wrong(REDACT, ((text, text) for text in HONEST)) == []
    raw = [text.encode() for text in HONEST]
    assert [text for text in raw if REDACT(text) != text] == []


def test_random_bytes_are_no_secret() -> None:
    for seed in range(5):
        noise = random.Random(seed).randbytes(200_000)
        hexed = noise.hex().encode(), noise[:3000].hex(":").encode()
        for text in (noise, base64.b64encode(noise), *hexed):
            assert REDACT(text) == text, seed


def test_redacting_twice_changes_nothing() -> None:
    texts = [*TOKENS, *VALUES, "https://a:b@c", "Authorization: Bearer abcdefgh"]
    once = [REDACT(f"x {text} y") for text in texts]
    assert [text for text, left in zip(texts, once, strict=True) if X not in left] == []
    assert find_wrong(REDACT, zip(once, once, strict=True)) == []


# --- streams --------------------------------------------------------------------------------------


def _streamed(redact: Redactor, *chunks: bytes | str) -> bytes:
    stream = redact.build_stream()
    return b"".join([*map(stream.feed, chunks), stream.finish()])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that every cut is tried."""
    monkeypatch.setattr("gitlab_nightshift.redaction.redactor._BLOCK", 1)
    monkeypatch.setattr("gitlab_nightshift.redaction.redactor._LONGEST_TOKEN", 250)


def _find_wrong_cuts(redact: Redactor, secret: str, expected: str) -> list[int]:
    """The positions or chunk sizes at which a cut changes the output."""
    text = f"{SAFE * 12} {secret} {SAFE * 12}".encode()
    whole = f"{SAFE * 12} {expected} {SAFE * 12}".encode()
    edge = len(SAFE) * 12 - 2
    pieces = [(at, [text[:at], text[at:]]) for at in range(edge, len(text) - edge)]
    pieces += [(size, list(_cut(text, [size]))) for size in (1, 2, 3, 7, 100)]
    return [at for at, chunks in pieces if _streamed(redact, *chunks) != whole]


@pytest.mark.usefixtures("small")
def test_a_value_is_caught_wherever_it_is_cut() -> None:
    redact = Redactor((VALUES[2],))
    failures = {form: _find_wrong_cuts(redact, w(VALUES[2]), X) for form, w in FORMS.items()}
    assert {form: cuts for form, cuts in failures.items() if cuts} == {}


@pytest.mark.usefixtures("small")
def test_a_stream_holds_back_enough() -> None:
    def find(text: bytes) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(b"abcdefgh", text)]

    text = b"abcdefghabcdefgh-abcdefg-bcdefghabcdefgh"
    expected = text.replace(b"abcdefgh", X.encode())
    for first, second in itertools.combinations(range(len(text)), 2):
        stream = RedactedStream(find, 8)
        chunks = (text[:first], text[first:second], text[second:])
        out = [stream.feed(chunk) for chunk in chunks]
        assert b"".join((*out, stream.finish())) == expected


@pytest.mark.usefixtures("small")
def test_a_token_is_caught_wherever_it_is_cut() -> None:
    failures = {
        token: _find_wrong_cuts(TOKENS_ONLY, token, TOKENS_ONLY(token))
        for token in ("https://u:hunter3@h", *TOKENS)
    }
    assert {token: cuts for token, cuts in failures.items() if cuts} == {}


@pytest.mark.usefixtures("small")
def test_a_token_may_be_longer_than_what_is_held_back() -> None:
    text = f"a sk-ant-{BODY * 100} b".encode()
    for size in (1, 13, 300, 5000):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        assert _streamed(Redactor(()), *chunks) == f"a {X} b".encode()


@pytest.mark.usefixtures("small")
def test_a_cut_begins_no_word() -> None:
    for word, shift in itertools.product(("risk-", "xAKIA", "_eyJ"), range(110)):
        text = f"{'.' * shift}{word}{BODY[:16].upper()}{BODY}.eyJ{BODY} ".encode()
        stream = RedactedStream(TOKENS_ONLY.find_spans, 100)
        out = [stream.feed(text[at : at + 1]) for at in range(len(text))]
        assert b"".join((*out, stream.finish())) == text, (word, shift)


def test_a_stream_takes_str_and_can_be_used_again() -> None:
    stream = REDACT.build_stream()
    for _ in range(2):
        assert stream.feed("hunt") + stream.feed("er2 ü".encode()) == b""
        assert stream.finish() == X.encode() + " ü".encode()


PIECES = st.sampled_from([*VALUES, *TOKENS]).flatmap(
    lambda value: st.sampled_from([form(value.strip()) for form in FORMS.values()])
)
NOISE = st.text(st.sampled_from("ab \n/%\\\"'@:=-_Zq0"), max_size=30)


def _cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            return
        yield data[at : at + size]
        at += size


@given(
    st.lists(st.tuples(NOISE, PIECES), max_size=6),
    st.lists(st.integers(1, 200), min_size=1, max_size=5),
)
def test_a_stream_redacts_like_a_single_call(
    planted: list[tuple[str, str]], sizes: list[int]
) -> None:
    text = "".join(f"{noise} {piece} " for noise, piece in planted)
    data = text.encode()
    chunks = list(_cut(data, sizes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gitlab_nightshift.redaction.redactor._BLOCK", 1)
        patch.setattr("gitlab_nightshift.redaction.redactor._LONGEST_TOKEN", 600)
        left = _streamed(REDACT, *chunks)
    assert left == REDACT(data) == REDACT(text).encode()
    for _, piece in planted:
        assert piece not in VALUES or piece.encode() not in left


@given(st.sampled_from(VALUES), st.data())
def test_escapes_may_be_mixed(value: str, data: st.DataObject) -> None:
    """Each character may be plain, URL-encoded or escaped as in JSON."""
    value = value.strip()
    ways = (str, _upper_escapes, lambda c: _upper_escapes(c).lower(), _unicode)
    written = "".join(
        data.draw(st.sampled_from(ways))(char) if char.isalnum() and char.isascii() else _json(char)
        for char in value
    )
    assert REDACT(f"a {written} b") == f"a {X} b"


def _json(char: str) -> str:
    return json.dumps(char)[1:-1]


ANOTHER = Redactor(("Zq7Kx9Wv2J",))


@given(st.text(max_size=300))
@example("\ud800")
@example("%")
def test_text_without_secrets_stays(text: str) -> None:
    assert ANOTHER(text) == text


@settings(max_examples=FEW_EXAMPLES)
@given(st.binary(max_size=300), st.lists(st.text(max_size=12), max_size=4))
def test_any_bytes_and_values_are_accepted(data: bytes, values: list[str]) -> None:
    redact = Redactor(tuple(values))
    assert isinstance(redact(data), bytes)
    assert _streamed(redact, data) == redact(data)
    redact(data.decode("utf-8", "surrogateescape"))


SMALL_VALUES = st.lists(st.text("ab", min_size=6, max_size=7), max_size=4).map(tuple)


@settings(max_examples=FEW_EXAMPLES)
@given(SMALL_VALUES, st.text("ab", max_size=80))
@example(("aababa", "abaaab"), "aababaaab")
def test_overlapping_values_leave_no_part(values: tuple[str, ...], text: str) -> None:
    secret = [False] * len(text)
    for value in (value.strip() for value in values):
        for start in range(len(text)):
            if len(value) >= 6 and text.startswith(value, start):
                secret[start : start + len(value)] = [True] * len(value)
    plain = "".join(char for char, gone in zip(text, secret, strict=True) if not gone)
    assert Redactor(values)(text).replace(X, "") == plain


# --- work, memory -------------------------------------------------------------------------------


def test_holds_value_finds_any_spelling_but_no_tokens() -> None:
    assert REDACT.holds_value(b"+ x = " + base64.b64encode(b"user:hunter2"))
    assert REDACT.holds_value(b"%68unter2")
    assert not REDACT.holds_value(TOKENS[0].encode())
    assert not Redactor(()).holds_value(b"anything")


def test_memory_is_bounded() -> None:
    stream, chunk = REDACT.build_stream(), os.urandom(500_000).hex().encode()
    stream.feed(chunk)
    tracemalloc.start()
    try:
        for _ in range(20):
            stream.feed(chunk)
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()


HOSTILE_TEXTS = (
    *(
        "glpat-",
        "sk-ant-",
        "sk-proj-",
        "eyJ",
        "eyJa.",
        "-----BEGIN PRIVATE KEY-----",
        "://a:",
        "//",
    ),
    *("%41", "\\u0041", "Authorization: Bearer ", "hunter", "AKIA", "sk-", "\\", "%", "://a:b@"),
)


def test_work_grows_with_the_text_not_with_its_square() -> None:
    finder = Finder((), list_lookaheads(), list_token_keys())
    failures = {}
    for text in HOSTILE_TEXTS:
        data = (text * (20_000 // len(text))).encode()
        found = sum(end - start for start, end in finder.find_spans(data))
        if found > 2 * len(data):
            failures[text] = found / len(data)
    assert failures == {}


@dataclass(frozen=True)
class Literal:
    """A needle that is its own anchor."""

    anchors: tuple[bytes]
    skips_inside: bool = False

    def find_spans(self, text: bytes, at: int) -> list[tuple[int, int]]:
        (anchor,) = self.anchors
        return [(at, at + len(anchor))] if text.startswith(anchor, at) else []


LETTERS = st.lists(st.sampled_from(b"abc\xd8\xdf\0"), min_size=3, max_size=9).map(bytes)


@given(st.sets(LETTERS, max_size=8), st.lists(LETTERS, max_size=20).map(b"".join))
@example({b"abcabca", b"cabcabc"}, b"abcabcabcabc")
@example({b"abcdef", b"cdefgh"}, b"abcdefgh")
def test_all_needles_are_found(needles: set[bytes], text: bytes) -> None:
    found = Finder(Literal((needle,)) for needle in needles).find_spans(text)
    expected = {
        (at, at + len(needle))
        for needle in needles
        for at in range(len(text))
        if text.startswith(needle, at)
    }
    assert set(found) == expected


def test_a_window_around_an_escape_does_not_begin_a_word() -> None:
    def find(text: bytes) -> list[tuple[int, int]]:
        return [(0, 3), (1, 4)]

    assert list(find_escaped_spans(b"0123456789%41", find, 4)) == [(7, 10)]
    assert list(find_escaped_spans(b"0123456789%41", find, 10)) == [(0, 3), (1, 4)]


@given(st.binary(min_size=3, max_size=40))
def test_an_anchor_has_a_window_at_even_and_odd_offsets(anchor: bytes) -> None:
    for odd, (offset, key) in enumerate(find_windows(anchor)):
        assert offset % 2 == odd
        assert len(key) in {2, 4, 6}
        assert anchor[offset : offset + len(key)] == key


def test_a_secret_is_refused_unless_the_base_has_it() -> None:
    """Headers and text beside the change would be published as well."""
    secret = "correct-horse-battery"
    known = (f" {secret}", f"-{secret}", f"@@ -1 +1 @@ {secret}")
    for line in (f"+{secret}", secret, f"diff --git a/{secret} b/x", f"\t{secret}", *known):
        patch = f"diff --git a/x b/x\n@@ -1 +1 @@\n{line}\n".encode()
        try:
            refuse_secrets(patch, (secret,))
            refused = False
        except NightshiftError:
            refused = True
        assert refused == (line not in known), line
