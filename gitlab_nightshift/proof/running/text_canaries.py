"""Canaries in code of an unsupported language: faults in its text, each tried by a run of its own,
and judged by the exit status alone."""

import random
import re
from collections.abc import Iterator, Sequence

from gitlab_nightshift.proof.reading.touched_files import is_vendored
from gitlab_nightshift.proof.reviewed_change import is_document
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.running.fault_choice import take_in_turn
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import Canary, CanaryInputs, JudgedCanary
from gitlab_nightshift.proof.running.trial import LARGEST_FILE, TreeFiles
from gitlab_nightshift.proof.syntax.languages import find_language, has_test_name, is_beside_tests

_TABLE = RuleTable(__file__)
MOST_CANARIES = 4
FEWEST_TRIES, MOST_TRIES = 2, 8
SEARCH_S = 6.0  # seconds to look for canaries; the fewest tries may take longer
MOST_FILES = 40  # files that are read for faults
# Extensions of files that decide nothing, such as data and styles.
_DATA_EXTENSIONS = frozenset(
    "json yaml yml toml xml lock sum mod csv tsv txt svg html htm css scss ini cfg conf properties"
    " snap golden png jpg jpeg gif ico pdf gz zip sql po mo env example".split()
)


def is_unsupported_code(path: str) -> bool:
    """True if a file's extension looks like code of an unsupported language."""
    name, _, extension = path.rpartition("/")[2].rpartition(".")
    if find_language(path) is not None or is_document(path):
        return False
    return bool(name) and extension.lower() not in _DATA_EXTENSIONS


def find_text_canaries(inputs: CanaryInputs) -> tuple[Fault, ...]:
    """Faults that the commands notice in the base's tree, each tried by a run; none if the commands
    fail without a fault."""
    inputs.trial.check_out(inputs.subject.base)
    if inputs.run_suite().red:
        return ()
    tries = int(SEARCH_S / max(inputs.faultless_run.duration_s, 0.01))
    tries = min(max(tries, FEWEST_TRIES), MOST_TRIES)
    noticed: list[Fault] = []
    for fault in _choose_faults(inputs.before, inputs.rng)[:tries]:
        if len(noticed) < MOST_CANARIES and _is_noticed(inputs, inputs.subject.base, fault):
            noticed.append(fault)
    return tuple(noticed)


def judge_text_canaries(inputs: CanaryInputs, canaries: Sequence[Fault]) -> list[JudgedCanary]:
    """Try the canaries in files that the change leaves alone, with the change applied. A lost one
    must be noticed on the base again."""
    subject = inputs.subject
    changed = {path for file in subject.change.files for path in (file.raw_path, file.raw_old_path)}
    canaries = [fault for fault in canaries if fault.path not in changed]
    inputs.trial.check_out(subject.tree)
    if not canaries or inputs.run_suite().red:
        return [JudgedCanary(Canary(fault, frozenset()), None) for fault in canaries]
    judged: list[JudgedCanary] = []
    for fault in canaries:
        still_noticed = _is_noticed(inputs, subject.tree, fault)
        if still_noticed is not False or _is_noticed(inputs, subject.base, fault):
            judged.append(JudgedCanary(Canary(fault, frozenset()), still_noticed))
    return judged


def _choose_faults(files: TreeFiles, rng: random.Random) -> list[Fault]:
    """All faults of some files, in random order, one of each file in turn."""
    excluded = (is_beside_tests, has_test_name, is_vendored)
    paths = [path for path in files.list_paths() if is_unsupported_code(path)]
    paths = [path for path in paths if not any(exclude(path) for exclude in excluded)]
    rng.shuffle(paths)
    by_file = []
    for path in paths[:MOST_FILES]:
        source = files.read(path) or b""
        if len(source) <= LARGEST_FILE:
            by_file.append(list_text_faults(path, source))
            rng.shuffle(by_file[-1])
    return list(take_in_turn(by_file))


def _is_noticed(inputs: CanaryInputs, tree: str, fault: Fault) -> bool | None:
    """True if the commands fail with the fault in the tree; None if this program ended the run."""
    inputs.trial.check_out(inputs.trial.checkout.build_faulty(tree, [fault]))
    outcome = inputs.run_suite()
    return outcome.red if outcome.ended else None


# --- faults in the text ---------------------------------------------------------------------------


_SKIPPED = _TABLE.get_pattern("skipped", re.IGNORECASE)
_MESSAGES = _TABLE.get_pattern("messages")
_COMMENT = _TABLE.get_pattern("comment")
_STRING = _TABLE.get_pattern("string")
_OPENS = _TABLE.get_pattern("opens")
_CLOSES = _TABLE.get_pattern("closes")
_NUMBER = _TABLE.get_pattern("number")
_OPERATOR = _TABLE.get_pattern("operator")
_NEGATION = _TABLE.get_pattern("negation")
_SWAPS: dict[str, str] = _TABLE.entries["swaps"]
_LONGEST_LINE = 400  # characters: longer lines are data or generated


def list_text_faults(path: str, source: bytes) -> list[Fault]:
    """The faults of a file in source order, for ``write_faulty_file``; ``path`` is raw. A file that
    is not UTF-8 has none."""
    try:
        lines = re.findall(r"[^\n]*\n|[^\n]+", source.decode("utf-8"))
    except UnicodeDecodeError:
        return []
    faults: list[Fault] = []
    offset = 0  # of the line, in bytes
    closed = True
    for number, line in enumerate(lines, 1):
        code = _remove_texts(line)
        skipped = _SKIPPED.search(line) or _MESSAGES.search(code) or len(line) >= _LONGEST_LINE
        if closed and not skipped and not _OPENS.search(code) and not line.startswith("#!"):
            for start, old, new in sorted(_list_changes(code)):
                what = f"`{old}` as `{new}`" if new else f"`{old.strip()}` left out"
                begin = offset + len(line[:start].encode())
                end = begin + len(old.encode())
                faults.append(Fault(path, number, what, "", begin, end, new, "", by_value=True))
        closed = _ends_closed(code, closed=closed)
        offset += len(line.encode())
    return faults


def _remove_texts(line: str) -> str:
    """The line with strings blanked and comments removed."""
    code = _STRING.sub(lambda text: text[0][:1] + " " * (len(text[0]) - 2) + text[0][-1:], line)
    return _COMMENT.sub(lambda comment: comment[0] if _OPENS.match(comment[0]) else "", code)


def _ends_closed(code: str, *, closed: bool) -> bool:
    """True if no multi-line comment is open after a line; ``closed``: none was open before it."""
    starts = {match.start() for match in _OPENS.finditer(code)}
    ends = {match.start() for match in _CLOSES.finditer(code)}
    for at in sorted(starts ^ ends):
        closed = at in ends
    # Marks that open and close, such as """: an odd number of them changes the state.
    return closed != (len(starts & ends) % 2 == 1)


def _list_changes(code: str) -> Iterator[tuple[int, str, str]]:
    """The possible changes of a line: position, old text and new text of each."""
    for match in _OPERATOR.finditer(code):
        if new := _SWAPS.get(match[0]):
            yield match.start(), match[0], new
    for match in _NUMBER.finditer(code):
        yield match.start(), match[0], str(int(match[0]) + 1)
    for match in _NEGATION.finditer(code):
        yield match.start(), match[0], ""
