"""Figures before and after a change: a benchmark's time, and with lizard the complexity and
duplication of the changed files."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from gitlab_nightshift.proof.evidence.evidence_records import (
    Evidence,
    EvidenceSubject,
    raise_flag,
    refuse,
    report_check,
)
from gitlab_nightshift.proof.implied_commands import MAKEFILES, read_make_targets, read_scripts
from gitlab_nightshift.proof.running.trial import TrialCheckout
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.text.lazy_patterns import compile_lazily

BENCHMARK, COMPLEXITY = "Benchmark", "Complexity"
ROUNDS = 7
FEWEST_ROUNDS = 3  # fewer prove nothing
TARGETS = ("bench", "benchmark")
SLOWER, FASTER = 1.05, 0.95  # ratios of the medians; what is in between is noise
_PYTHON_FILE = compile_lazily(r"(^|/)(bench_\w+|\w+_bench|benchmark_?\w*)\.py$")


@dataclass(frozen=True)
class Times:
    """The seconds that each round took before and after the change."""

    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median after, divided by median before."""
        return statistics.median(self.after) / statistics.median(self.before)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a round."""
        ratios = [new / old for old, new in zip(self.before, self.after, strict=True)]
        return min(ratios), max(ratios)


def run_benchmark(subject: EvidenceSubject, trial_checkout: TrialCheckout) -> Evidence:
    """Run the repository's benchmark, or one that the change adds, on the code before and after.
    The duration of the whole command counts, not what the benchmark measures itself."""
    product = {
        file.raw_path: file.old
        for file in subject.change.files
        if read_sides(file)[1].is_product and "bench" not in file.path.lower()
    }
    argv, times, why = next(_find_commands(subject), None), None, "there is no benchmark"
    if not product:
        why = "no product code is changed"
    elif argv is not None:
        before = trial_checkout.build_variant(subject.tree, product)
        times, why = _measure_times(trial_checkout, before, subject.tree, argv)
    if argv is None or times is None:
        return report_check(BENCHMARK, CheckOutcome.NOT_CHECKED, f"nothing was measured: {why}")
    return _judge_times(subject, times, " ".join(argv))


def _find_commands(subject: EvidenceSubject) -> Iterator[tuple[str, ...]]:
    """Commands for a benchmark: a target of the build files, or else a benchmark file."""
    read, paths = subject.change.read, sorted(subject.change.paths())
    makefile = next(filter(None, map(read, MAKEFILES)), None)
    yield from (("make", name) for name in TARGETS if name in read_make_targets(makefile))
    scripts = read_scripts(read("package.json"))
    yield from (("npm", "run", name) for name in TARGETS if name in scripts)
    changed = {file.path for file in subject.change.files}
    files = sorted(filter(_PYTHON_FILE.search, paths), key=lambda path: path not in changed)
    yield from (("python3", path) for path in files[:1])
    in_go = (path for path in changed if path.endswith("_test.go"))
    if read("go.mod") and any(b"func Benchmark" in (read(path) or b"") for path in in_go):
        # -run ^$: no tests, only benchmarks (go help testflag).
        yield ("go", "test", "-run", "^$", "-bench", ".", "-benchtime", "200ms", "./...")


def _measure_times(
    trial_checkout: TrialCheckout, before: str, after: str, argv: tuple[str, ...]
) -> tuple[Times | None, str]:
    """Time the trees ``before`` and ``after`` in turn, so that a noisy machine affects both alike.
    The first round is a warm-up. Returns None and why if there are no times."""
    seconds: dict[str, list[float]] = {before: [], after: []}
    for number in range(ROUNDS + 1):
        slower = (max(pair) for pair in zip(*seconds.values(), strict=False))
        average = sum(slower) / max(number, 1)
        if number > FEWEST_ROUNDS and trial_checkout.compute_left_s() < 2 * average:
            break
        for side, tree in (("before", before), ("after", after)):
            result = trial_checkout.run(tree, argv, f"benchmark-{side}-{number}")
            if not result.ok:
                how = result.error or f"exit {result.exit_status}"
                return None, f"`{' '.join(argv)}` ended with {how} on the code {side}"
            seconds[tree].append(result.duration_s)
    rounds = len(seconds[after]) - 1
    if rounds < FEWEST_ROUNDS:
        return None, "there was not enough time"
    return Times(tuple(seconds[before][1:]), tuple(seconds[after][1:])), ""


def _judge_times(subject: EvidenceSubject, times: Times, command: str) -> Evidence:
    low, high = times.spread
    text = (
        f"`{command}` takes {times.ratio:.2f} of the time before"
        f" ({low:.2f} to {high:.2f} in {len(times.after)} rounds)"
    )
    if times.ratio <= SLOWER:
        is_faster = times.ratio < FASTER and high < 1
        outcome = CheckOutcome.PASSED if is_faster else CheckOutcome.UNDECIDED
        return report_check(BENCHMARK, outcome, text)
    return refuse(subject, BENCHMARK, "slower", text, detail=f"The benchmark is slower: {text}.")


# --- complexity -----------------------------------------------------------------------------------


REPEATED_LINES = 6  # a run of at least this many lines that occurs twice counts as repeated
TOLERANCE = 1  # a figure may rise by this much


@dataclass(frozen=True)
class _Figures:
    """Figures of several files: total cyclomatic complexity, that of the worst function, and lines
    that occur more than once."""

    total: int
    worst: int
    repeated: int

    def __str__(self) -> str:
        worst = f"{self.worst} in the worst function"
        return f"{self.total} in all, {worst}, {self.repeated} repeated lines"


def compare_complexity(
    subject: EvidenceSubject, _checkout: TrialCheckout | None = None
) -> Evidence:
    """The figures before and after; a refactoring that raises all of them is a red flag."""
    files = [
        file for file in subject.change.files if read_sides(file)[1].is_product and not file.binary
    ]
    if not files:
        return Evidence()
    before = _measure_files((file.old_path, file.old_lines) for file in files)
    after = _measure_files((file.path, file.new_lines) for file in files)
    if before is None or after is None:
        why = "lizard cannot read these files"
        return report_check(COMPLEXITY, CheckOutcome.NOT_CHECKED, why)
    text = f"before: {before}; after: {after}"
    if not _is_worse(before, after):
        return report_check(COMPLEXITY, CheckOutcome.UNDECIDED, text)
    detail = f"The changed files are more complex or repeat more than before ({text})."
    path = max(files, key=lambda file: len(file.added)).path
    findings = raise_flag("complexity-raised", subject.context, path, detail)
    return report_check(COMPLEXITY, CheckOutcome.UNDECIDED, text, findings)


def _is_worse(before: _Figures, after: _Figures) -> bool:
    """True if one figure is higher by more than ``TOLERANCE``, and none is lower."""
    pairs = list(zip(astuple(before), astuple(after), strict=True))
    raised = any(new > old + TOLERANCE for old, new in pairs)
    return raised and not any(new < old for old, new in pairs)


def _measure_files(files: Iterable[tuple[str, list[str]]]) -> _Figures | None:
    import lizard  # type: ignore[import-untyped]  # slow to load, and seldom needed

    total = worst = 0
    texts: list[list[str]] = []
    for path, lines in files:
        try:
            analysis = lizard.analyze_file.analyze_source_code(path, "\n".join(lines))
        except Exception:  # lizard raises any error for a file that it cannot parse
            return None
        complexities = [function.cyclomatic_complexity for function in analysis.function_list]
        total += sum(complexities)
        worst = max([worst, *complexities])
        texts.append([line.strip() for line in lines if line.strip()])
    return _Figures(total, worst, _count_repeated_lines(texts))


def _count_repeated_lines(texts: list[list[str]]) -> int:
    """Counts the lines of runs that occur again, without their first occurrence."""
    starts: dict[tuple[str, ...], list[tuple[int, int]]] = {}  # text and line of each run
    for text, lines in enumerate(texts):
        for line in range(len(lines) - REPEATED_LINES + 1):
            run = tuple(lines[line : line + REPEATED_LINES])
            starts.setdefault(run, []).append((text, line))
    repeated = [start for same in starts.values() for start in same[1:]]
    return len({(text, line + n) for text, line in repeated for n in range(REPEATED_LINES)})
