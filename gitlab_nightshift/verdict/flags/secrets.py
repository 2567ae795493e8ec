"""Credentials in added lines: tokens by their form, values by the name they are given to."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found
from gitlab_nightshift.verdict.flags.files import is_docs
from gitlab_nightshift.verdict.syntax.languages import is_product

_NAME = (
    r"[\w.-]{0,40}(?:passw(?:or)?d|passwd|pwd|passphrase|secret|token|api[_-]?key|apikey|access[_-]?key"
    r"|private[_-]?key|signing[_-]?key|encryption[_-]?key|auth[_-]?key|credentials?|client[_-]?secret"
    r"|connection[_-]?string|account[_-]?key|master[_-]?key)[\w-]{0,20}"
)
_ASSIGNED = re.compile(
    rf"""(?P<name>{_NAME})["'\]]?\s*(?::\s*[\w<>\[\]&' ]+?\s*)?(?:=>|:=|=|:|,|\()\s*"""
    r"""(?:(?:process\.env|os\.environ|os\.getenv|ENV|System\.getenv|getenv|env)\b[^\n]{0,60}?"""
    r"""(?:\|\||\?\?|,|\bor\b)\s*)?(?:[bruf]{0,2}|String\.?(?:from|valueOf)?\()(?P<quote>["'`])(?P<value>[^"'`\n]{6,500})(?P=quote)""",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    rf"^\s*(?:export\s+|-\s+)?(?P<name>{_NAME})\s*[:=]\s*(?P<value>[^\s\"'#$<{{][^\s\"'#]{{7,500}})\s*(?:#.*)?$",
    re.IGNORECASE,
)
_PLAIN_FILES = re.compile(
    r"\.(env|properties|ini|cfg|conf|ya?ml|toml|tfvars)$|(^|/)\.env[\w.-]*$|Dockerfile|\.netrc$|\.pgpass$"
)
_SAMPLES = re.compile(
    r"(?<!org/)(?<!com/)(?<!net/)(?<!io/)\b(examples?|samples?|dummy|fixtures?|testdata|mocks?|fakes?|stubs?"
    r"|demo)/|\b(example|sample|template|dist|dummy|fixtures?|mocks?|fakes?|stubs?)\b[^/]*$"
    r"|_(test|spec|mock)\b[^/]*$",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"""\b(?P<name>getConnection|HTTPBasicAuth|BasicAuth|SetBasicAuth|basic_?auth|UsernamePassword\w*"""
    r"""|PasswordAuthentication|connect|login|authenticate|signIn|sign_in|auth)\(\s*(?:[^()"'`\n]{0,80}|"""
    r"""["'`][^"'`\n]{0,80}["'`]\s*,\s*[^()"'`\n]{0,80})["'`][^"'`\n]{0,80}["'`]\s*,\s*"""
    r"""["'`](?P<value>[^"'`\n]{6,200})["'`]\s*[,)]"""
)
"""A user with a password, one after the other."""
_CONNECTION = re.compile(r"""(?i)[;"'](?:password|pwd)=(?P<value>[^;"'\s{}$<>%]{6,200})[;"']""")
_PLACEHOLDER = re.compile(
    r"example|sample|dummy|placeholder|change[_-]?me|changeit|your[_-]|my[_-]|insert|replace|todo|fixme|redacted"
    r"|xxx|\*\*\*|\.\.\.|<|>|\$\{|\{\{|\{[\w.]*\}|%\(|%s|\$[A-Z_(]|\bnull\b|\bnone\b|undefined|not[_-]?a[_-]?secret|fake|foobar"
    r"|1234567|abcdef|qwerty|secret[_-]?name|deadbeef|0{6}|test|process\.env|os\.environ|getenv|ENV\[|vault:|secretsmanager"
    r"|ssm:|kms:|arn:|file:|keyring|sha256[:-]|^[\w.]+\(|lorem",
    re.IGNORECASE,
)
_NOT_VALUES = re.compile(
    r"_?(name|names|field|fields|header|headers|url|uri|path|file|type|kind|label|prefix|suffix|length|size|ttl|expiry"
    r"|expires?|regex|pattern|param|parameter|column|attribute|env|var|variable|error|message|hint|help|title|placeholder"
    r"|reset|policy|id|ids|input|format|algorithm|scope|issuer|audience|count|limit|min|max|class|style|selector|section"
    r"|template|description|salt|rotation|validator|encoder|hash|hasher|store|storage|provider|manager|service|key_id|kid)$",
    re.IGNORECASE,
)
_LIKELY = re.compile(
    r"gl\w+-|GR13|sk-|gh[oprsu]_|github_pat|xox|A[KS]IA|AIza|eyJ|://|token|uthorization|AUTHORIZATION|ecret|SECRET|TOKEN"
)
"""What stands in every token that the redactor knows: the others need no look."""
_LOCAL = re.compile(
    r"://[^/]*@(?:(?:localhost|db|database|postgres|mysql|redis|rabbitmq|mongo|host|server|proxy)[:/\"'\s]"
    r"|127\.|0\.0\.0\.0|[\w.-]*\bexample\b|[\w.-]+\.(?:test|local|localhost|invalid)\b)"
)
_DETAIL = "A credential: take it from a variable, and revoke this one, for it is known now."


def secret_added(change: Change, _context: Context) -> Iterator[Found]:
    """A credential that was nowhere in the changed files before."""
    before = "\n".join(line for file in change.files for line in file.old_lines)
    for file in change.files:
        keyed = _private_keys(file)
        for line in file.added:
            text = line.text[:5000]
            token = _token(text, before, in_test=not is_product(file.path))
            if line.number in keyed or token or _named(file, text, before):
                yield Found(file.path, line.number, _DETAIL)


def _private_keys(file: ChangedFile) -> set[int]:
    """The first lines of private keys that go on with what looks like one."""
    found = set()
    for line in file.added:
        if re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----", line.text):
            after = "".join(file.new_lines[line.number : line.number + 3]) + line.text
            bodies = re.findall(r"[A-Za-z0-9+/=]{40,}", after)
            if any(len(set(body)) > 20 for body in bodies) and not _SAMPLES.search(file.path):
                found.add(line.number)
    return found


@cache
def _redactor() -> Redactor:
    return Redactor(())


def _token(text: str, before: str, in_test: bool) -> bool:
    """A token by its form; the part that the redactor takes out is the token."""
    redacted = _redactor()(text) if _LIKELY.search(text) else text
    if redacted == text or "PRIVATE KEY" in text or (in_test and "://" in text):
        return False
    start = next((n for n, (a, b) in enumerate(zip(text, redacted, strict=False)) if a != b), 0)
    token = re.split(r"[\s\"'`,;)]", text[start:])[0]
    local = _LOCAL.search(text)
    plain = len(set(token)) < 8 and "@" not in token
    common = re.match(r"(postgres|root|admin|user|guest|password|pass|secret|pw|redis)[@:]", token)
    known = token and token in before
    return not (_PLACEHOLDER.search(token) or local or common or known or plain)


def _named(file: ChangedFile, text: str, before: str) -> bool:
    if is_docs(file.path) or not is_product(file.path) or _SAMPLES.search(file.path):
        return False
    matches = list(_ASSIGNED.finditer(text))
    if _PLAIN_FILES.search(file.path):
        matches += _PLAIN.finditer(text)
    found = [m["value"] for m in matches if _is_secret(m["name"], m["value"])]
    given = [m["value"] for m in (*_GIVEN.finditer(text), *_CONNECTION.finditer(text))]
    found += [
        value
        for value in given
        if _is_secret("password", value) and re.search(r"[A-Z]|[^\w.-]", value)
    ]
    return any(value not in before for value in found)


def _is_secret(name: str, value: str) -> bool:
    if (
        _PLACEHOLDER.search(value)
        or _NOT_VALUES.search(name)
        or re.search(r"\s|^https?:|^/|^\.", value)
    ):
        return False
    if re.search(r"passw|pwd|passphrase", name, re.IGNORECASE):
        return bool(re.search(r"[\d\W]", value)) and not re.fullmatch(
            r"[a-z]+([-_.][a-z]+)*", value
        )
    mixed = re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    words = re.fullmatch(r"[a-z]+\d*([-_.:/][a-z]+\d*)*", value)
    return bool(mixed) and not words and len(value) >= 12 and _entropy(value) >= 3.0


def _entropy(text: str) -> float:
    """Bits per character."""
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
