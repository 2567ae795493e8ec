"""How many planted faults the suite finds: `python benchmarks/faults.py CHECKOUT FOLDER`.

CHECKOUT is a clone in which `make unit` works; it is changed meanwhile and put back. FOLDER keeps
what was found out, so that a stopped run goes on. Three steps: choose places (fixed seed), trace
which tests reach each of them, then plant one fault after the other and run the tests that reach
it, within SECONDS of their time: the cheapest, then the cheapest of each file.

`--only proof,gateway` chooses, traces and runs within those parts of the package and of the tests.
`--places FILE` takes the places of an earlier run, so that two suites are held against the same
faults: a place is known by its module, its function and its words, not by its line.
"""

import argparse
import ast
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGE = "gitlab_nightshift"
NOT_OURS = ("demo/sample", "demo/recording")
SECONDS = 40.0
LIMIT_S = 75.0
"""A fault may make a test hang: found, too, but on a busy machine worth a second look."""

FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.GtE: "<",
    ast.Gt: "<=",
    ast.LtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


@dataclass(frozen=True)
class Fault:
    """A place and what would stand there instead; ``nth`` counts equal words of a function."""

    module: str
    function: str
    kind: str
    old: str
    new: str
    nth: int = 0


@dataclass(frozen=True)
class Spot:
    """Where a fault is in the text of today."""

    fault: Fault
    start: int
    end: int
    statement_line: int


def main() -> int:
    args = _arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    faults = _chosen(args)
    reached, seconds = _traced(args, faults)
    verdicts = _judged(args, faults, reached, seconds)
    found = sum(bool(verdict["found"]) for verdict in verdicts.values())
    untried = sum(not verdict["tests"] for verdict in verdicts.values())
    print(f"{found} of {len(verdicts)} planted faults found (no test is known for {untried})")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkout", type=lambda text: Path(text).resolve())
    parser.add_argument("folder", type=lambda text: Path(text).resolve())
    parser.add_argument("--sample", type=int, default=320)
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--places", type=Path)
    parser.add_argument("--only", type=lambda text: text.split(","), help="parts, by comma")
    parser.add_argument("--part", default="0/1", help="judge only the K-th of N parts")
    return parser.parse_args()


# --- places ---------------------------------------------------------------------------------------


def _chosen(args: argparse.Namespace) -> list[Fault]:
    kept = args.folder / "faults.json"
    source = args.places or kept
    if source.exists():
        faults = [Fault(**entry) for entry in json.loads(source.read_text())]
    else:
        every = [spot.fault for spots in _every_spot(args).values() for spot in spots]
        faults = random.Random(args.seed).sample(every, args.sample)  # noqa: S311
    kept.write_text(json.dumps([asdict(fault) for fault in faults], indent=1))
    return faults


def _every_spot(args: argparse.Namespace) -> dict[str, list[Spot]]:
    files = sorted((args.checkout / PACKAGE).rglob("*.py"))
    names = [str(path.relative_to(args.checkout)) for path in files]
    ours = [name for name in names if not any(part in name for part in NOT_OURS)]
    asked = [name for name in ours if not args.only or _part(name) in args.only]
    return {name: _spots(name, (args.checkout / name).read_text()) for name in asked}


def _part(module: str) -> str:
    return module.split("/")[1].removesuffix(".py")


def _spots(module: str, text: str) -> list[Spot]:
    """Every place of one module, in the order of the text."""
    offsets = _line_offsets(text)
    data = text.encode()
    spots: list[Spot] = []
    seen: dict[tuple[str, str, str], int] = defaultdict(int)
    for function, statement, node in _nodes(ast.parse(text), text.splitlines()):
        for kind, part, new in _changes(node):
            start = offsets[part.lineno - 1] + part.col_offset
            end = offsets[part.end_lineno - 1] + part.end_col_offset  # type: ignore[operator]
            old = data[start:end].decode()
            key = (function, kind, old)
            fault = Fault(module, function, kind, old, new, seen[key])
            seen[key] += 1
            spots.append(Spot(fault, start, end, statement.lineno))
    return spots


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    for line in text.encode().split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    return offsets


def _nodes(tree: ast.Module, lines: list[str]) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """Each node inside a function, with the function's name and the statement to stand before."""

    def walk(
        node: ast.AST, function: str, statement: ast.stmt | None
    ) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            inner, place = function, statement
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner, place = f"{function}.{child.name}".strip("."), None
            elif isinstance(child, ast.stmt) and (function and not _is_elif(child, lines)):
                place = child
            if isinstance(child, ast.arguments) or _is_docstring(child):
                continue
            if place is not None and inner == function:
                yield function, place, child
            yield from walk(child, inner, place)

    return walk(tree, "", None)


def _is_elif(node: ast.stmt, lines: list[str]) -> bool:
    return isinstance(node, ast.If) and lines[node.lineno - 1].lstrip().startswith("elif")


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """The faults that can be planted at one node: kind, the part that goes, what comes."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in FLIPPED:
            yield "compare", node, f"{ast.unparse(left)} {FLIPPED[type(op)]} {ast.unparse(right)}"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and-or", node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", node, f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield "constant", node, str(not value)
        case ast.Constant(value=int(value)):
            yield "constant", node, str(value + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            other_op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "arithmetic", node, f"({ast.unparse(ast.BinOp(node.left, other_op, node.right))})"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
                yield "condition", test, f"(not ({ast.unparse(test)}))"
        case ast.Return(value=value) if value is not None:
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield "return", node, "return None"
        case ast.Expr(value=ast.Call()):
            yield "call", node, "pass"


def _located(checkout: Path, faults: list[Fault]) -> dict[Fault, Spot]:
    """Where the faults are now; one whose function is gone is named and left out."""
    modules = {fault.module for fault in faults}
    every = {
        spot.fault: spot
        for name in sorted(modules)
        if (checkout / name).exists()
        for spot in _spots(name, (checkout / name).read_text())
    }
    for fault in faults:
        if fault not in every:
            print(f"gone: {fault.module} {fault.function}: {fault.old!r}", file=sys.stderr)
    return {fault: every[fault] for fault in faults if fault in every}


# --- which tests reach them -----------------------------------------------------------------------

RECORDER = """
import os
current = ""
_seen = set()

def _forget():
    global current
    current = ""  # a warm process forks for one test after the other
    _seen.clear()

os.register_at_fork(after_in_child=_forget)

def hit(number):
    try:
        test = current or _of_an_ancestor()
        if (number, test) not in _seen:
            _seen.add((number, test))
            line = f"{number}\\t{test}\\n".encode()
            file = os.open("@HITS@/hits", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            os.write(file, line)
            os.close(file)
    except Exception:
        pass

def _of_an_ancestor():
    global current
    pid = os.getpid()
    while pid > 1:
        try:
            with open(f"@HITS@/{pid}") as file:
                current = file.read()
                return current
        except OSError:
            with open(f"/proc/{pid}/stat", "rb") as file:
                data = file.read()
            pid = int(data[data.rindex(b")") + 2 :].split()[1])
    return ""
"""
PLUGIN = """
import os, resource, time
import pytest
import fault_recorder
from tests.support import kept

def _tell(pid):
    with open(f"@HITS@/{pid}", "w") as file:
        file.write(fault_recorder.current)

class _Servers(dict):
    def __setitem__(self, pid, connection):
        super().__setitem__(pid, connection)
        _tell(pid)

kept.services = _Servers()  # what forks for a test is no child of the process that runs it

def _cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    fault_recorder.current = item.nodeid
    for pid in (os.getpid(), *kept.services):
        _tell(pid)
    begun, cpu = time.monotonic(), _cpu()
    yield
    line = f"{item.nodeid}\\t{time.monotonic() - begun:.3f}\\t{_cpu() - cpu:.3f}\\n"
    with open("@HITS@/times", "a") as file:
        file.write(line)
"""


def _traced(
    args: argparse.Namespace, faults: list[Fault]
) -> tuple[dict[Fault, dict[str, float]], dict[str, float]]:
    """For each fault the tests that reach its place, and the seconds of every test."""
    hits = args.folder / "hits"
    if not (args.folder / "traced").exists():
        hits.mkdir(exist_ok=True)
        hits.chmod(0o777)
        (hits / "hits").touch()
        (hits / "hits").chmod(0o666)
        _run_traced(args, hits, faults)
        (args.folder / "traced").touch()
    seconds = {
        test: float(wall)
        for test, wall, _cpu in (line.split("\t") for line in (hits / "times").open())
    }
    reached: dict[Fault, dict[str, float]] = {fault: {} for fault in faults}
    for line in (hits / "hits").read_text().splitlines():
        number, _, test = line.partition("\t")
        if test in seconds:
            reached[faults[int(number)]][test] = seconds[test]
    return reached, seconds


def _run_traced(args: argparse.Namespace, hits: Path, faults: list[Fault]) -> None:
    checkout = args.checkout
    site = next((checkout / ".venv/lib").glob("python3*/site-packages"))
    (site / "fault_recorder.py").write_text(RECORDER.replace("@HITS@", str(hits)))
    (site / "fault_plugin.py").write_text(PLUGIN.replace("@HITS@", str(hits)))
    by_module: dict[str, list[tuple[int, int]]] = defaultdict(list)
    spots = _located(checkout, faults)
    for number, fault in enumerate(faults):
        if fault in spots:
            by_module[fault.module].append((spots[fault].statement_line, number))
    texts = {name: (checkout / name).read_text() for name in by_module}
    try:
        for name, places in by_module.items():
            (checkout / name).write_text(_recording(texts[name], places))
        command = ["-m", "pytest", "-n", "auto", "--dist", "worksteal", "-p", "fault_plugin"]
        command += _tests_of(checkout, args.only or [])
        subprocess.run([checkout / ".venv/bin/python", *command], cwd=checkout, check=False)
    finally:
        for name, text in texts.items():
            (checkout / name).write_text(text)


def _tests_of(checkout: Path, parts: list[str]) -> list[str]:
    names = [name for part in parts for name in (f"tests/{part}", f"tests/test_{part}.py")]
    return [name for name in names if (checkout / name).exists()]


def _recording(text: str, places: list[tuple[int, int]]) -> str:
    lines = text.splitlines(keepends=True)
    for line, number in sorted(places, reverse=True):
        here = lines[line - 1]
        indent = here[: len(here) - len(here.lstrip())]
        recorder = (
            f"{indent}try:\n{indent}    __import__('fault_recorder').hit({number})\n"
            f"{indent}except ImportError:\n{indent}    pass\n"
        )
        lines.insert(line - 1, recorder)
    return "".join(lines)


# --- the verdict ----------------------------------------------------------------------------------


def _judged(
    args: argparse.Namespace,
    faults: list[Fault],
    reached: dict[Fault, dict[str, float]],
    seconds: dict[str, float],
) -> dict[str, dict[str, object]]:
    part, parts = map(int, args.part.split("/"))
    file = args.folder / f"verdicts-{part}.json"
    verdicts = json.loads(file.read_text()) if file.exists() else {}
    spots = _located(args.checkout, faults)
    if _find_red(args.checkout, _choice(seconds)):
        raise SystemExit("the tests fail without any fault, so what they say of one means nothing")
    for number, fault in enumerate(faults):
        if number % parts != part or str(number) in verdicts or fault not in spots:
            continue
        tests = _choice(reached[fault] or _list_tests_of_part(fault, seconds))
        begun = time.monotonic()
        by = _try_fault(args.checkout, spots[fault], tests) if tests else ""
        took = round(time.monotonic() - begun)
        known = {"reached": len(reached[fault]), "tests": len(tests)}
        outcome = {**known, "seconds": took, "by": by, "found": bool(by)}
        verdicts[str(number)] = {**asdict(fault), **outcome}
        file.write_text(json.dumps(verdicts, indent=1))
        word = "found" if by else "MISSED"
        print(number, word, fault.module, fault.function, f"{took} s", by, flush=True)
    return verdicts


def _list_tests_of_part(fault: Fault, seconds: dict[str, float]) -> dict[str, float]:
    """Where nobody was seen to reach a place: a sandbox lets nothing be recorded."""
    part = _part(fault.module)
    folders = f"tests/{part}/", f"tests/test_{part}."
    return {test: took for test, took in seconds.items() if test.startswith(folders)}


def _choice(tests: dict[str, float]) -> list[str]:
    """The cheapest of all up to a third of the time, then the cheapest of each file, the second of
    each, up to the whole."""
    files: dict[str, list[tuple[float, str]]] = defaultdict(list)
    spent, chosen = 0.0, list[str]()
    for seconds, test in sorted((seconds, test) for test, seconds in tests.items()):
        if spent + seconds < SECONDS / 3:
            chosen.append(test)
            spent += seconds + 0.05
        else:
            files[test.split("::")[0]].append((seconds, test))
    ranked = sorted(
        (rank, seconds, test)
        for entries in files.values()
        for rank, (seconds, test) in enumerate(entries)
    )
    for _, seconds, test in ranked:
        spent += seconds + 0.05
        if chosen and spent > SECONDS:
            break
        chosen.append(test)
    return chosen


def _try_fault(checkout: Path, spot: Spot, tests: list[str]) -> str:
    path = checkout / spot.fault.module
    before = path.read_bytes()
    path.write_bytes(before[: spot.start] + spot.fault.new.encode() + before[spot.end :])
    try:
        return _find_red(checkout, tests)
    finally:
        path.write_bytes(before)


def _find_red(checkout: Path, tests: list[str]) -> str:
    """What tells of a fault: the first test that is red, or that they hang; "" for nothing."""
    command = [".venv/bin/python", "-m", "pytest", "-x", "--no-header", "--tb=no", "-rfE", *tests]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command,
        cwd=checkout,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            text, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "they hang"
    red = re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
    return "" if process.returncode == 0 else red[1] if red else f"exit {process.returncode}"


if __name__ == "__main__":
    raise SystemExit(main())
