"""A benchmark before and after, interleaved, so that a noisy machine meets both alike."""

import json
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.verdict.evidence.evidence_flags import raise_flag
from gitlab_nightshift.verdict.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.verdict.syntax.file_side import read_sides

TITLE = "Benchmark"
ROUNDS = 7
FEWEST_ROUNDS = 3
TARGETS = ("bench", "benchmark")
SLOWER, FASTER = 1.05, 0.95
"""Between these ratios of the medians nothing is concluded: the noise of any machine."""
_PYTHON_FILE = compile_lazily(r"(^|/)(bench_\w+|\w+_bench|benchmark_?\w*)\.py$")


@dataclass(frozen=True)
class Times:
    """Seconds of each round, before and after."""

    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """After by before, of the medians."""
        return statistics.median(self.after) / statistics.median(self.before)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a round."""
        ratios = [new / old for old, new in zip(self.before, self.after, strict=True)]
        return min(ratios), max(ratios)


def run_benchmark(subject: EvidenceSubject, lab: Lab) -> Evidence:
    """The repository's benchmark, or the one that the change brings, on the code before and
    after. The time of the whole command counts: what it measures inside is its own business."""
    product = {
        file.raw_path: file.old
        for file in subject.change.files
        if read_sides(file)[1].is_product and not _is_benchmark(file.path)
    }
    argv = next(_find_commands(subject), None)
    if argv is None or not product:
        why = "there is no benchmark" if product else "no product code is changed"
        return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, f"nothing was measured: {why}"),))
    times, why = _measure_times(lab, lab.build_variant(subject.tree, product), subject.tree, argv)
    if times is None:
        return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, f"nothing was measured: {why}"),))
    return _judge_times(subject, times, " ".join(argv))


def _find_commands(subject: EvidenceSubject) -> Iterator[tuple[str, ...]]:
    """How to run a benchmark: a target of the build files, else a file that is one."""
    read = subject.change.read
    makefile = next(
        (text for name in ("GNUmakefile", "makefile", "Makefile") if (text := read(name))), b""
    )
    for target in TARGETS:
        if re.search(rf"^{target}\s*:(?!=)".encode(), makefile, re.M):
            yield ("make", target)
    yield from (
        ("npm", "run", name) for name in TARGETS if name in _read_scripts(read("package.json"))
    )
    paths = sorted(subject.change.paths())
    changed = {file.path for file in subject.change.files}
    files = sorted(filter(_PYTHON_FILE.search, paths), key=lambda path: path not in changed)
    yield from (("python3", path) for path in files[:1])
    if read("go.mod") and any(
        path.endswith("_test.go") and _has_go_benchmark(subject, path) for path in changed
    ):
        yield ("go", "test", "-run", "^$", "-bench", ".", "-benchtime", "200ms", "./...")


def _has_go_benchmark(subject: EvidenceSubject, path: str) -> bool:
    return b"func Benchmark" in (subject.change.read(path) or b"")


def _read_scripts(package: bytes | None) -> dict[str, str]:
    try:
        scripts = json.loads(package or b"{}").get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return scripts if isinstance(scripts, dict) else {}


def _is_benchmark(path: str) -> bool:
    return "bench" in path.lower()


def _measure_times(
    lab: Lab, before: str, after: str, argv: tuple[str, ...]
) -> tuple[Times | None, str]:
    """Seconds of both sides in turn; the first round of each only warms up."""
    seconds: dict[str, list[float]] = {before: [], after: []}
    for number in range(ROUNDS + 1):
        longest = max((sum(map(max, zip(*seconds.values(), strict=False))), 0.0)) / max(number, 1)
        if number > FEWEST_ROUNDS and lab.compute_left_s() < 2 * longest:
            break
        for side, tree in (("before", before), ("after", after)):
            result = lab.run(tree, argv, f"benchmark-{side}-{number}")
            if not result.ok:
                how = result.error or f"exit {result.exit_status}"
                return None, f"`{' '.join(argv)}` ended with {how} on the code {side}"
            seconds[tree].append(result.duration_s)
    rounds = len(seconds[after]) - 1
    if rounds < FEWEST_ROUNDS:
        return None, "there was no time for it"
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
