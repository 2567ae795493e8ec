"""A secret in any form, cut anywhere, is never in what leaves; other texts pass unchanged."""

import base64
import html
import itertools
import json
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.redaction.redactor import Redactor
from tests.fuzz.strategies import steady

FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 of a header": lambda secret: base64.b64encode(f"oauth2:{secret}".encode()).decode(),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
    "URL": lambda secret: quote(secret, safe=""),
    "form": quote_plus,
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON twice": lambda secret: json.dumps(json.dumps(secret))[3:-3],
    "HTML": html.escape,
    "shell": shlex.quote,
}
SIGNS = st.characters(min_codepoint=33, max_codepoint=0x24F, exclude_categories=["C", "Z"])
SECRETS = st.text(SIGNS, min_size=12, max_size=60).filter(
    lambda text: sum(c.isascii() and c.isalnum() for c in text) >= 10 and len(set(text)) >= 8
)
NOISE = st.builds(
    str.__mul__, st.text(st.sampled_from("lorem ipsum,\n"), max_size=20), st.integers(0, 150)
)


@steady(20)
@given(
    secret=SECRETS,
    form=st.sampled_from(sorted(FORMS)),
    before=NOISE,
    after=NOISE,
    cuts=st.lists(st.integers(0, 4000), max_size=40),
)
def test_a_secret_never_leaves(
    secret: str, form: str, before: str, after: str, cuts: list[int]
) -> None:
    redact, written = Redactor((secret,)), FORMS[form](secret)
    data = f"{before} {written} {after}".encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gitlab_nightshift.redaction.redactor._LONGEST_TOKEN", 1)
        stream = redact.build_stream()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    with pytest.MonkeyPatch.context() as patch:  # so that it lets go early
        patch.setattr("gitlab_nightshift.redaction.redactor._BLOCK", 1)
        parts = [stream.feed(data[a:b]) for a, b in itertools.pairwise(places)]
        streamed = b"".join([*parts, stream.finish()])
    assert streamed == redact(data)
    assert written.encode() not in streamed and secret.encode() not in streamed
    assert b"[redacted]" in streamed
    assert streamed.startswith(f"{before} ".encode()) and streamed.endswith(f" {after}".encode())
    assert secret not in str(map_texts(Note(f"{before} {written}"), redact))


@steady(10)
@given(
    secrets=st.lists(SECRETS, max_size=4),
    words=st.lists(st.sampled_from(["make", "test", "src/a.py:12:", "ok", "{}", "é", "\n"])),
)
def test_other_texts_pass_unchanged(secrets: list[str], words: list[str]) -> None:
    text = " ".join(words)
    assert Redactor(tuple(secrets))(text) == text
