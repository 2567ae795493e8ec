"""Finds added text that does not belong in a repository: credentials, recognized by their form or
by the name that they are assigned to (secret-added), text for machines, such as a reviewing AI or
GitLab, and hidden text (machine-text)."""

import base64
import binascii
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import zip_longest

from gitlab_nightshift.proof.reading.touched_files import is_docs
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.languages import is_product
from gitlab_nightshift.repository.difference import ChangedFile, Line
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_TABLE = RuleTable(__file__)

_ASSIGNED = _TABLE.get_pattern("assigned", re.IGNORECASE)
_UNQUOTED = _TABLE.get_pattern("unquoted", re.IGNORECASE)
_UNQUOTED_FILES = _TABLE.get_pattern("unquoted_files")
_SAMPLES = _TABLE.get_pattern("samples", re.IGNORECASE)
_USER_AND_PASSWORD = _TABLE.get_pattern("user_and_password")
_CONNECTION = _TABLE.get_pattern("connection")
_PLACEHOLDER = _TABLE.get_pattern("placeholder", re.IGNORECASE)
_NOT_VALUES = _TABLE.get_pattern("not_values", re.IGNORECASE)
# Every token that the redactor knows has one of these parts, and few lines do.
_LIKELY_TOKEN = _TABLE.get_pattern("likely_token")
_LOCAL_URL = _TABLE.get_pattern("local_url")
# A URL's user and password as examples have them: postgres:…@, admin:…@.
_COMMON_USER = compile_lazily(
    r"(?i)(postgres|root|admin|user|guest|password|pass|secret|pw|redis)[@:]"
)
_LONGEST = 5000  # characters of a line
_DETAIL = "A credential: read it from a variable, and revoke this one, as it is exposed now."


def find_added_secrets(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Added credentials that no changed file contained before."""
    before = "\n".join(line for file in change.files for line in file.old_lines)
    for file in change.files:
        key_lines = _find_private_keys(file)
        for line in file.added:
            text = line.text[:_LONGEST]
            token = _has_token(text, before, in_test=not is_product(file.path))
            if line.number in key_lines or token or _has_assigned_secret(file, text, before):
                yield RuleViolation(file.path, line.number, _DETAIL)


def _find_private_keys(file: ChangedFile) -> set[int]:
    """The numbers of the first lines of private keys with a body that looks random."""
    numbers = set()
    for line in file.added:
        if re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----", line.text):
            after = "".join(file.new_lines[line.number : line.number + 3]) + line.text
            bodies = re.findall(r"[A-Za-z0-9+/=]{40,}", after)
            if any(len(set(body)) > 20 for body in bodies) and not _SAMPLES.search(file.path):
                numbers.add(line.number)
    return numbers


@cache
def _build_redactor() -> Callable[[str], str]:
    from gitlab_nightshift.redaction.redactor import Redactor

    return Redactor(())


def _has_token(text: str, before: str, *, in_test: bool) -> bool:
    """True if a line has a token, by its form: it begins where the redactor changes the text.
    ``before`` is the text of all changed files before the change."""
    redacted = _build_redactor()(text) if _LIKELY_TOKEN.search(text) else text
    if redacted == text or "PRIVATE KEY" in text or (in_test and "://" in text):
        return False
    start = next((n for n, (a, b) in enumerate(zip(text, redacted, strict=False)) if a != b), 0)
    token = re.split(r"[\s\"'`,;)]", text[start:])[0]
    if _PLACEHOLDER.search(token) or _LOCAL_URL.search(text) or _COMMON_USER.match(token):
        return False
    # Too few different characters for a random text, or, in a test, words alone.
    repetitive = len(set(token)) < 8 and "@" not in token
    words = in_test and re.fullmatch(r"[a-z]+(-[a-z]+)*", token)
    return not ((token and token in before) or repetitive or words)


def _has_assigned_secret(file: ChangedFile, text: str, before: str) -> bool:
    if is_docs(file.path) or not is_product(file.path) or _SAMPLES.search(file.path):
        return False
    matches = list(_ASSIGNED.finditer(text))
    if _UNQUOTED_FILES.search(file.path):
        matches += _UNQUOTED.finditer(text)
    secrets = [m["value"] for m in matches if _is_secret(m["name"], m["value"])]
    for match in (*_USER_AND_PASSWORD.finditer(text), *_CONNECTION.finditer(text)):
        password = match["value"]
        if re.search(r"[A-Z]|[^\w.-]", password) and _is_secret("password", password):
            secrets.append(password)
    return any(secret not in before for secret in secrets)


def _is_secret(name: str, value: str) -> bool:
    is_text_or_path = re.search(r"\s|^https?:|^/|^\.", value)
    if is_text_or_path or _PLACEHOLDER.search(value) or _NOT_VALUES.search(name):
        return False
    if re.search(r"passw|pwd|passphrase", name, re.IGNORECASE):
        words = re.fullmatch(r"[a-z]+([-_.][a-z]+)*", value)
        return re.search(r"[\d\W]", value) is not None and not words
    mixed = re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    words = re.fullmatch(r"[a-z]+\d*([-_.:/][a-z]+\d*)*", value)
    # A random text has a high entropy (Shannon's, in bits per character), words do not.
    shares = [count / len(value) for count in Counter(value).values()]
    entropy = -sum(share * math.log2(share) for share in shares)
    return bool(mixed) and not words and len(value) >= 12 and entropy >= 3.0


# --- text for machines ----------------------------------------------------------------------------


_TEMPLATE = _TABLE.get_pattern("template")
_SKIPS_CI = _TABLE.get_pattern("skips_ci", re.IGNORECASE)
_QUICK_ACTION = _TABLE.get_pattern("quick_action")
# Zero-width non-joiner and joiner; marks for left-to-right, right-to-left and Arabic.
_JOINERS = "\u200c\u200d"
_DIRECTION_MARKS = "\u200e\u200f\u061c"
# Characters that nobody sees, such as Hangul's fillers and tags (Unicode's
# Default_Ignorable_Code_Point), and those that reorder text (UAX 9; CVE-2021-42574).
_HIDDEN = compile_lazily(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u061c\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_MIXED_WORD = compile_lazily(r"\b(?=\w*[A-Za-z])\w*[^\W\d_A-Za-z]\w*")
# Cyrillic and Greek letters that look like Latin ones in most fonts (Unicode's UTS 39).
_LOOK_ALIKES = frozenset("аеорсухіјѕԁһԛԝАВЕКМНОРСТУХІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧο")
_ORDINALS = "ªº"  # 1ª, nº in Spanish and Portuguese
_RTL = compile_lazily("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_BASE64 = _TABLE.get_pattern("base64")
_COMMENT = _TABLE.get_pattern("comment")
_COMMENT_START = _TABLE.get_pattern("comment_start")
_RELEASE_FILES = _TABLE.get_pattern("release_files")
_INSTRUCTIONS = _TABLE.get_pattern("instructions", re.IGNORECASE)
# Every instruction to a machine has one of these parts, and few lines do.
_LIKELY_INSTRUCTION = _TABLE.get_pattern("likely_instruction", re.IGNORECASE)


def find_machine_text(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Added lines with text meant for machines."""
    for file in change.files:
        moved = {line.text.strip() for line in file.deleted}
        for line, following in zip_longest(file.added, file.added[1:]):
            if line.text.strip() not in moved and (
                text := _describe_machine_text(file, line, following)
            ):
                yield RuleViolation(file.path, line.number, text)


def _describe_machine_text(file: ChangedFile, line: Line, following: Line | None) -> str:
    """What is wrong with a line, or "". A sentence may go on in the ``following`` line."""
    text = joined = line.text[:_LONGEST]
    if deceptive := _describe_deceptive_letters(file, line):
        return deceptive
    if following is not None and following.number == line.number + 1:
        joined = f"{text} {_COMMENT_START.sub('', following.text[:_LONGEST])}"
    if (match := _TEMPLATE.search(text)) and not _is_data(file, text, match.start()):
        return f"A marker of a chat template ({match[0].strip()}) speaks to a model."
    match = _find_instruction(joined)
    if match and match.start() < len(text) and not _is_data(file, text, match.start()):
        return "Text addressed to an AI or a bot: write for the people who read the code."
    if (match := _SKIPS_CI.search(text)) and _is_prose(file, text, match.start()):
        return f"{match[0]} would keep CI from running."
    if _is_quick_action(file, text):
        return "A quick action at the start of a line: GitLab would carry it out."
    encoded = _has_instruction_in_base64(text)
    return "Base64 with text addressed to an AI or a bot." if encoded else ""


def _find_instruction(text: str) -> re.Match[str] | None:
    """The first instruction to a machine."""
    return _INSTRUCTIONS.search(text) if _LIKELY_INSTRUCTION.search(text) else None


def _is_data(file: ChangedFile, line: str, at: int) -> bool:
    """True at a position in a test's code, where such text is input, but not in a comment."""
    return not is_product(file.path) and not is_docs(file.path) and not _COMMENT.search(line[:at])


def _is_prose(file: ChangedFile, line: str, at: int) -> bool:
    """True at a position in docs or a comment, but not in the settings of release tools, which have
    such marks."""
    comment = _COMMENT.search(line[:at]) and not re.search(r"[\"'`]", line[:at])
    return is_docs(file.path) or bool(comment and not _RELEASE_FILES.search(file.path))


def _describe_deceptive_letters(file: ChangedFile, line: Line) -> str:
    if hidden := _find_hidden_characters(line):
        return f"Invisible or bidirectional characters ({hidden}): they can deceive a reviewer."
    text = line.text[:_LONGEST]
    word = _find_mixed_word(text)
    if not word or _is_data(file, text, text.index(word)):
        return ""
    return f"{word} has letters of another script that look like Latin ones."


def _find_hidden_characters(line: Line) -> str:
    """The code points of hidden characters without a legitimate use; "" without any."""
    code_points: list[str] = []
    for match in () if line.text.isascii() else _HIDDEN.finditer(line.text):
        at, char = match.start(), match[0]
        neighbours = line.text[max(at - 1, 0) : at] + line.text[at + 1 : at + 2]
        # Persian and emoji need joiners, Hebrew and Arabic direction marks, and a file may begin
        # with a byte order mark.
        joins = char in _JOINERS and any(ord(each) > 0x2FF for each in neighbours)
        directs = char in _DIRECTION_MARKS and _RTL.search(line.text)
        byte_order_mark = char == "\ufeff" and line.number == 1 and at == 0
        if not (joins or directs or byte_order_mark):
            code_points.append(f"U+{ord(char):04X}")
    return ", ".join(dict.fromkeys(code_points))


def _find_mixed_word(text: str) -> str:
    """A word that mixes Latin letters with look-alikes of other scripts; "" without one.

    Mathematical and full-width letters count, too: Python treats them as plain ones in identifiers
    (NFKC, PEP 3131).
    """
    if text.isascii():
        return ""
    for match in _MIXED_WORD.finditer(text):
        foreign = {each for each in match[0] if not each.isascii() and each.isalpha()}
        if foreign and all(each in _LOOK_ALIKES or _is_latin_variant(each) for each in foreign):
            return match[0]
    return ""


def _is_latin_variant(letter: str) -> bool:
    latin = unicodedata.normalize("NFKC", letter)
    return latin.isascii() and latin.isalpha() and len(latin) == 1 and letter not in _ORDINALS


def _is_quick_action(file: ChangedFile, text: str) -> bool:
    if is_docs(file.path):
        return _QUICK_ACTION.match(text) is not None
    bare = re.sub(r"^\s*(?:#+|//+|\*|--|<!--)?\s*", "", text)
    return bool(re.match(r"\s*(#|//|\*|--)", text) and _QUICK_ACTION.match(bare))


def _has_instruction_in_base64(text: str) -> bool:
    for match in _BASE64.finditer(text):
        blob = match[0].replace("-", "+").replace("_", "/").rstrip("=")
        # Decoded in groups of four (RFC 4648); an incomplete one at the end is an error.
        blob = blob[: len(blob) // 4 * 4]
        try:
            decoded = base64.b64decode(blob, validate=True).decode("utf-8", "ignore")
        except binascii.Error:
            continue
        if _find_instruction(decoded) or _TEMPLATE.search(decoded):
            return True
    return False
