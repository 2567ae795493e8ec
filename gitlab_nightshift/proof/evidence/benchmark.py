"""Runs a benchmark before and after, interleaved, so that a noisy machine affects both alike."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from gitlab_nightshift.proof.evidence.lab import Evidence, EvidenceSubject, Lab, raise_flag
from gitlab_nightshift.proof.implied_commands import MAKEFILES, read_make_targets, read_scripts
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.text.lazy_patterns import compile_lazily

TITLE = "Benchmark"
ROUNDS = 7
FEWEST_ROUNDS = 3
TARGETS = ("bench", "benchmark")
SLOWER, FASTER = 1.05, 0.95
"""Ratios of the medians; those in between are noise."""
_PYTHON_FILE = compile_lazily(r"(^|/)(bench_\w+|\w+_bench|benchmark_?\w*)\.py$")


@dataclass(frozen=True)
class Times:
    """Seconds of each round, before and after."""

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


def run_benchmark(subject: EvidenceSubject, lab: Lab) -> Evidence:
    """Run the repository's benchmark, or one that the change adds, on the code before and after.
    The duration of the whole command counts, not its own measurement."""
    product = {
        file.raw_path: file.old
        for file in subject.change.files
        if read_sides(file)[1].is_product and "bench" not in file.path.lower()
    }
    argv, times, why = next(_find_commands(subject), None), None, "there is no benchmark"
    if not product:
        why = "no product code is changed"
    elif argv is not None:
        before = lab.build_variant(subject.tree, product)
        times, why = _measure_times(lab, before, subject.tree, argv)
    if argv is None or times is None:
        return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, f"nothing was measured: {why}"),))
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
        yield ("go", "test", "-run", "^$", "-bench", ".", "-benchtime", "200ms", "./...")


def _measure_times(
    lab: Lab, before: str, after: str, argv: tuple[str, ...]
) -> tuple[Times | None, str]:
    """Time both sides in turn; the first round of each is a warm-up."""
    seconds: dict[str, list[float]] = {before: [], after: []}
    for number in range(ROUNDS + 1):
        slower = sum(map(max, zip(*seconds.values(), strict=False))) / max(number, 1)
        if number > FEWEST_ROUNDS and lab.compute_left_s() < 2 * slower:
            break
        for side, tree in (("before", before), ("after", after)):
            result = lab.run(tree, argv, f"benchmark-{side}-{number}")
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
        seen = CheckOutcome.PASSED if times.ratio < FASTER and high < 1 else CheckOutcome.UNDECIDED
        return Evidence((Check(TITLE, seen, text),))
    found = raise_flag("slower", subject.context, "", 0, f"The benchmark is slower: {text}.")
    return Evidence((Check(TITLE, CheckOutcome.FAILED, text),), found)
