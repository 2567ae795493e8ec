"""secret-added: credentials in added lines, by their form, or by the name they are assigned to."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

from gitlab_nightshift.proof.reading.touched_files import is_docs
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.languages import is_product
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_TABLE = RuleTable(__file__)

_ASSIGNED = _TABLE.get_pattern("assigned", re.IGNORECASE)
_PLAIN = _TABLE.get_pattern("plain", re.IGNORECASE)
_PLAIN_FILES = _TABLE.get_pattern("plain_files")
_SAMPLES = _TABLE.get_pattern("samples", re.IGNORECASE)
_GIVEN = _TABLE.get_pattern("given")  # a user name followed by a password
_CONNECTION = _TABLE.get_pattern("connection")
_PLACEHOLDER = _TABLE.get_pattern("placeholder", re.IGNORECASE)
_NOT_VALUES = _TABLE.get_pattern("not_values", re.IGNORECASE)
# Part of every token that the redactor knows: a quick test that most lines fail.
_LIKELY = _TABLE.get_pattern("likely")
_LOCAL = _TABLE.get_pattern("local")
_COMMON_USER = compile_lazily(
    r"(?i)(postgres|root|admin|user|guest|password|pass|secret|pw|redis)[@:]"
)
_DETAIL = "A credential: read it from a variable, and revoke this one, as it is exposed now."


def find_added_secrets(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Added credentials that no changed file contained before."""
    before = "\n".join(line for file in change.files for line in file.old_lines)
    for file in change.files:
        keyed = _find_private_keys(file)
        for line in file.added:
            text = line.text[:5000]
            token = _has_token(text, before, in_test=not is_product(file.path))
            if line.number in keyed or token or _has_assigned_secret(file, text, before):
                yield RuleViolation(file.path, line.number, _DETAIL)


def _find_private_keys(file: ChangedFile) -> set[int]:
    """The first lines of private keys with a body that looks random."""
    found = set()
    for line in file.added:
        if re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----", line.text):
            after = "".join(file.new_lines[line.number : line.number + 3]) + line.text
            bodies = re.findall(r"[A-Za-z0-9+/=]{40,}", after)
            if any(len(set(body)) > 20 for body in bodies) and not _SAMPLES.search(file.path):
                found.add(line.number)
    return found


@cache
def _build_redactor() -> Callable[[str], str]:
    from gitlab_nightshift.redaction.redactor import Redactor

    return Redactor(())


def _has_token(text: str, before: str, in_test: bool) -> bool:
    """True for a token by its form, which begins where the redactor changes the text."""
    redacted = _build_redactor()(text) if _LIKELY.search(text) else text
    if redacted == text or "PRIVATE KEY" in text or (in_test and "://" in text):
        return False
    start = next((n for n, (a, b) in enumerate(zip(text, redacted, strict=False)) if a != b), 0)
    token = re.split(r"[\s\"'`,;)]", text[start:])[0]
    local = _LOCAL.search(text)
    plain = len(set(token)) < 8 and "@" not in token
    plain = plain or (in_test and re.fullmatch(r"[a-z]+(-[a-z]+)*", token) is not None)
    common = _COMMON_USER.match(token)
    known = token and token in before
    return not (_PLACEHOLDER.search(token) or local or common or known or plain)


def _has_assigned_secret(file: ChangedFile, text: str, before: str) -> bool:
    if is_docs(file.path) or not is_product(file.path) or _SAMPLES.search(file.path):
        return False
    matches = list(_ASSIGNED.finditer(text))
    if _PLAIN_FILES.search(file.path):
        matches += _PLAIN.finditer(text)
    found = [m["value"] for m in matches if _is_secret(m["name"], m["value"])]
    given = [m["value"] for m in (*_GIVEN.finditer(text), *_CONNECTION.finditer(text))]
    given = [value for value in given if re.search(r"[A-Z]|[^\w.-]", value)]
    found += [value for value in given if _is_secret("password", value)]
    return any(value not in before for value in found)


def _is_secret(name: str, value: str) -> bool:
    place = re.search(r"\s|^https?:|^/|^\.", value)
    if place or _PLACEHOLDER.search(value) or _NOT_VALUES.search(name):
        return False
    if re.search(r"passw|pwd|passphrase", name, re.IGNORECASE):
        words = re.fullmatch(r"[a-z]+([-_.][a-z]+)*", value)
        return re.search(r"[\d\W]", value) is not None and not words
    mixed = re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    words = re.fullmatch(r"[a-z]+\d*([-_.:/][a-z]+\d*)*", value)
    shares = [count / len(value) for count in Counter(value).values()]
    entropy = -sum(share * math.log2(share) for share in shares)  # Shannon's, bits a character
    return bool(mixed) and not words and len(value) >= 12 and entropy >= 3.0
