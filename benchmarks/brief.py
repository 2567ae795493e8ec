"""What the brief saves: `PYTHONPATH=. python benchmarks/brief.py [COMMIT]`.

A quiet night over five categories on a clone of this repository, by the real claude CLI against a
scripted endpoint that counts what is sent. The transcript below is what an agent reads; it is
played with the brief, and by a copy of this program without one. A step is left out where the brief
answers what it asks; all others are the same in both, also those that the brief answers in part.
Tokens are a quarter of the characters of what is sent; the ratio does not depend on that.

A prompt cache serves what the service's rules let it: whole blocks from the beginning, up to one
that an earlier request of the same model had marked, which is looked for up to 20 blocks back.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import Request, Turn, answer, bash, read

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tests/node/node_modules/.bin"
CATEGORIES = ("tests", "refactoring", "docs", "security", "performance")
PER_TOKEN = 4
LOOKED_BACK = 20


@dataclass(frozen=True)
class Step:
    """What an agent does; with the section of the brief that holds it no longer has to."""

    does: str
    answered_by: str = ""


ORIENTATION = (
    Step("git ls-files", "## Layout"),
    Step("ls", "## Layout"),
    Step("read README.md"),
    Step("read CONTRIBUTING.md"),
    Step("read Makefile", "## Commands"),
    Step("read pyproject.toml", "- pyproject.toml\n"),
    Step("git log --oneline -n 20", "## Last commits"),
    Step("git log --name-only --format= -n 10", "## Recently changed files"),
    Step("git ls-tree -r -l HEAD -- gitlab_nightshift", "## Largest files"),
    Step("git log --name-only --format= -n 50 -- gitlab_nightshift", "## Most changed files"),
)
"""What every Analyze begins with. Of README and CONTRIBUTING the brief shows only the beginning."""
LOOKING = {
    "tests": ("git grep -n 'def ' -- gitlab_nightshift/policy", "tests/test_policy.py"),
    "refactoring": ("git grep -n 'if .* and .* and' -- gitlab_nightshift", "docs/checks.md"),
    "docs": ("git grep -n '`nightshift ' -- docs", "docs/agents.md"),
    "security": ("git grep -n 'open(' -- gitlab_nightshift/stages/plan", "SECURITY.md"),
    "performance": ("git grep -n 'for .* in sorted' -- gitlab_nightshift", "docs/gates.md"),
}
DEEPER = ("gitlab_nightshift/policy/path_patterns.py", "gitlab_nightshift/stages/plan/schedule.py")


@dataclass(frozen=True)
class Sent:
    """The tokens of a request, and how many of them the cache serves."""

    tokens: int
    served: int


def main(commit: str) -> None:
    """Play both nights and print a table."""
    with tempfile.TemporaryDirectory(prefix="brief-") as name:
        folder = Path(name)
        checkout = folder / "checkout"
        _run("git", "clone", "-q", "--depth=30", f"file://{ROOT}", str(checkout))
        _run("git", "-C", str(checkout), "checkout", "-q", "-B", "main", commit)
        nights = {
            "without": _play(_copy_without_brief(folder / "without"), checkout, folder),
            "with": _play(ROOT, checkout, folder),
        }
    print(f"{'brief':8} {'requests':>9} {'input tokens':>13} {'cacheable':>10} {'not cached':>11}")
    without, brief = (_print_row(title, requests) for title, requests in nights.items())
    print(f"with / without: {brief / without:.2f}")
    _print_first_requests(nights["with"])


def _print_row(title: str, requests: list[Request]) -> int:
    """Print a night; returns its tokens."""
    sent = list(_serve(requests))
    tokens, served = sum(s.tokens for s in sent), sum(s.served for s in sent)
    share = f"{served / tokens:.0%}"
    print(f"{title:8} {len(sent):9} {tokens:13,} {share:>10} {tokens - served:11,}")
    return tokens


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)


def _copy_without_brief(folder: Path) -> Path:
    for part in ("gitlab_nightshift", "prompts"):
        shutil.copytree(ROOT / part, folder / part)
    with (folder / "gitlab_nightshift/stages/work/brief/repository_brief.py").open("a") as file:
        file.write('\n\ndef make_run_brief(*_) -> str:\n    return ""\n')
    return folder


def _play(source: Path, checkout: Path, folder: Path) -> list[Request]:
    """The model requests of a night of the program in ``source``."""
    for name in ("home", "tmp"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    with ModelEndpoint(lambda request: _choose_turn(request, checkout)) as endpoint:
        env = {
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
            "PYTHONPATH": str(source),
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "ANTHROPIC_API_KEY": "sk-benchmark",
            "ANTHROPIC_BASE_URL": endpoint.url,
            "NIGHTSHIFT_CATEGORY": CATEGORIES[0],
            "NIGHTSHIFT_ISOLATION": "none",
            "NIGHTSHIFT_VERIFY_COMMANDS": "true",
        }
        command = [sys.executable, "-P", "-m", "gitlab_nightshift", "run", "--dry-run"]
        done = subprocess.run(
            command, cwd=checkout, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "NO_IMPROVEMENT" in done.stdout, done.stdout
        shutil.rmtree(checkout / "nightshift")
        return endpoint.messages


def _choose_turn(request: Request, checkout: Path) -> Turn:
    """The next step of the transcript that this conversation has not taken."""
    category = request.prompt.partition("\nCategory: ")[2].partition("\n")[0]
    steps = _list_steps(request.prompt, category)
    done = len(request.tool_results)
    if done < len(steps):
        verb, _, rest = steps[done].partition(" ")
        return read(checkout / rest) if verb == "read" else bash(steps[done])
    reason = f"Looked through the package for {category}; what looked open is closed elsewhere."
    return answer({"result": "NO_IMPROVEMENT", "reason": reason, "files_scanned": 5})


def _list_steps(prompt: str, category: str) -> Sequence[str]:
    first = [s.does for s in ORIENTATION if not s.answered_by or s.answered_by not in prompt]
    search, file = LOOKING[category]
    return (*first, search, f"read {file}", *(f"read {path}" for path in DEEPER))


# --- the cache ------------------------------------------------------------------------------------


def _serve(requests: list[Request]) -> Iterator[Sent]:
    """Each request, and how much of it a cache with the service's rules would serve."""
    written: set[str] = set()
    for request in requests:
        blocks = list(_list_blocks(request))
        lengths, prefixes, hasher = [0], [""], hashlib.sha256(request.model.encode())
        for text, _ in blocks:
            hasher.update(text.encode())
            lengths.append(lengths[-1] + len(text))
            prefixes.append(hasher.hexdigest())
        marks = [end for end, (_, marked) in enumerate(blocks, 1) if marked]
        near = (end for mark in marks for end in range(max(mark - LOOKED_BACK, 1), mark + 1))
        served = max((lengths[end] for end in near if prefixes[end] in written), default=0)
        written.update(prefixes[mark] for mark in marks)
        yield Sent(lengths[-1] // PER_TOKEN, served // PER_TOKEN)


def _list_blocks(request: Request) -> Iterator[tuple[str, bool]]:
    """The blocks in the order in which they are cached, each with whether it is marked."""
    body = request.body
    said = ((message["role"], message["content"]) for message in body["messages"])
    for place, content in (("tool", body.get("tools", [])), ("system", body["system"]), *said):
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            plain = {key: value for key, value in block.items() if key != "cache_control"}
            yield json.dumps([place, plain]), bool(block.get("cache_control"))


def _print_first_requests(requests: list[Request]) -> None:
    sent = list(_serve(requests))
    first = [s for s, r in zip(sent, requests, strict=True) if not r.tool_results]
    shares = ", ".join(f"{s.served} of {s.tokens}" for s in first)
    print(f"first request of each bead, served from the one before (tokens): {shares}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
