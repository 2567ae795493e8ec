"""How fast secrets are taken out of a log: ``python benchmarks/redaction.py [MB]``.

A job of 50 secrets of the usual kinds; text as CI jobs and agents print it, with one secret in
about 100 KB. Seconds of one core; the ratio is to a plain copy of the same bytes in the same run.
Of hostile texts the slowest, and how much longer twice of it takes (4: with the text's square).
"""

import json
import random
import string
import sys
import time
from collections.abc import Callable

from gitlab_nightshift.redaction.redactor import Redactor

ALNUM = string.ascii_letters + string.digits
WORDS = """
build test task compile resolve download module package plugin version error warning failed passed
running finished started cached skipped dependency configuration class method expected actual
connection server client request response timeout thread main worker database migration production
function return import export async await const value string number object array undefined the of
and to in is for with from this that not was have been could should would there their which when
""".split()
HOSTILE = (
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
    *("%41", "\\u0041", "Authorization: Bearer ", "hunter", "AKIA", "sk-", "\\", "%"),
    "://a:b@",
)


def secrets(seed: int = 7) -> tuple[str, ...]:
    """50 values: tokens of GitLab, a model and clouds, passwords, keys in hex, a private key."""
    pick = random.Random(seed)  # noqa: S311

    def text(length: int, letters: str = ALNUM) -> str:
        return "".join(pick.choices(letters, k=length))

    odd = ALNUM + "!#$%&*+-./:=?@_~\\\"'"
    return (
        *(f"glpat-{text(20, ALNUM + '-_')}" for _ in range(10)),
        *(f"glcbt-64_{text(20)}" for _ in range(2)),
        f"sk-ant-api03-{text(95, ALNUM + '-_')}",
        *(text(40, ALNUM + "+/") for _ in range(4)),
        *(text(32, "0123456789abcdef") for _ in range(8)),
        *(text(pick.randint(12, 24), odd) for _ in range(15)),
        *(text(pick.randint(8, 11)) for _ in range(7)),
        *("hunter2", "correct-horse-battery"),
        "-----BEGIN PRIVATE KEY-----\n" + "\n".join(text(64) for _ in range(26)),
    )


def log_text(size: int, seed: int = 1, planted: tuple[str, ...] = ()) -> bytes:
    """Lines as CI jobs and coding agents print them; a planted value in one of 1000."""
    pick = random.Random(seed)  # noqa: S311
    kinds = (_plain, _plain, _gradle, _maven, _npm, _trace, _git, _json, _access)
    lines: list[bytes] = []
    length = 0
    while length < size:
        line = pick.choice(kinds)(pick)
        if planted and pick.random() < 0.001:
            line += f" {pick.choice(planted)}"
        lines.append(line.encode() + b"\n")
        length += len(lines[-1])
    return b"".join(lines)[:size]


def _words(pick: random.Random, least: int, most: int, between: str = " ") -> str:
    return between.join(pick.choices(WORDS, k=pick.randint(least, most)))


def _time(pick: random.Random) -> str:
    return (
        f"2025-{pick.randint(1, 12):02}-{pick.randint(1, 28):02}T03:{pick.randint(10, 59)}:07.123Z"
    )


def _plain(pick: random.Random) -> str:
    return f"{_time(pick)} [{pick.choice(('INFO', 'DEBUG', 'WARN'))}] {_words(pick, 4, 16)}"


def _gradle(pick: random.Random) -> str:
    return f"> Task :{_words(pick, 1, 2, '-')}:compile{pick.choice(WORDS).title()} UP-TO-DATE"


def _maven(pick: random.Random) -> str:
    name = _words(pick, 1, 2, "-")
    return (
        f"[INFO] Downloaded from central: https://repo.maven.apache.org/maven2/org/{name}/"
        f"{pick.randint(1, 9)}.{pick.randint(0, 20)}/{name}.jar (64 kB at 2.1 MB/s)"
    )


def _npm(pick: random.Random) -> str:
    digest = "".join(pick.choices(ALNUM + "+/", k=86))
    name = _words(pick, 1, 2, "-")
    return f'      "{name}": "^{pick.randint(0, 20)}.1.0", "integrity": "sha512-{digest}=="'


def _trace(pick: random.Random) -> str:
    name = "".join(word.title() for word in pick.choices(WORDS, k=3))
    place = f"{_words(pick, 2, 3, '.')}.{name}.{pick.choice(WORDS)}"
    return f"\tat com.example.{place}({name}.java:{pick.randint(1, 900)})"


def _git(pick: random.Random) -> str:
    return f"{pick.getrandbits(160):040x} refs/heads/{_words(pick, 2, 4, '-')} {_words(pick, 3, 8)}"


def _json(pick: random.Random) -> str:
    code = "\n".join(
        f"    {_words(pick, 1, 3, '_')} = {pick.choice(WORDS)}('{_words(pick, 1, 5)}')"
        for _ in range(12)
    )
    return json.dumps({"type": "tool_result", "content": [{"type": "text", "text": code}]})


def _access(pick: random.Random) -> str:
    return (
        f'10.0.{pick.randint(0, 9)}.7 - - [{_time(pick)}] "GET /api/v4/{_words(pick, 2, 4, "%2F")}'
        f'?page={pick.randint(1, 99)} HTTP/1.1" 200 {pick.randint(100, 99999)}'
    )


def _best_s(work: Callable[[], object], times: int = 5) -> float:
    """The least CPU seconds of some runs: other processes do not count."""
    found = []
    for _ in range(times):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def _streamed(redact: Redactor, text: bytes) -> int:
    stream, size = redact.build_stream(), 0
    for start in range(0, len(text), 65536):
        size += len(stream.feed(text[start : start + 65536]))
    return size + len(stream.finish())


def main() -> None:
    """Print a line for each kind of work."""
    size = int(sys.argv[1]) * 1_000_000 if len(sys.argv) > 1 else 32_000_000
    values = secrets()
    text = log_text(size, planted=values)
    redact = Redactor(values)
    build_s = _best_s(lambda: Redactor(values)(b""), 3)
    copy_s = _best_s(lambda: bytes(bytearray(text)))
    print(f"{len(values)} secrets, {size / 1e6:.0f} MB, ready after {build_s * 1e3:.0f} ms")
    for name, work in (
        ("bytes", lambda: redact(text)),
        ("stream, 64 KiB chunks", lambda: _streamed(redact, text)),
        ("str", lambda: redact(text.decode())),
    ):
        took_s = _best_s(work)
        print(f"{name:24}{size / took_s / 1e6:6.0f} MB/s, {took_s / copy_s:5.1f} times a copy")
    once = {text: _hostile_s(redact, text, 250_000) for text in HOSTILE}
    slowest = max(once, key=lambda text: once[text])
    growth = max(_hostile_s(redact, text, 500_000) / once[text] for text in HOSTILE)
    speed = 0.25 / once[slowest]
    print(
        f"{f'hostile: {slowest}':24}{speed:6.1f} MB/s, {growth:5.1f} times as long for twice of it"
    )


def _hostile_s(redact: Redactor, text: str, size: int) -> float:
    data = (text * (size // len(text))).encode()
    return _best_s(lambda: redact(data), 1)


if __name__ == "__main__":
    main()
