"""A change that leaves behaviour alone passes the tests as they were."""

import re
import shlex

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.verdict.evidence.evidence_flags import raise_flag
from gitlab_nightshift.verdict.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.verdict.syntax.file_side import read_sides

TITLE = "The tests as they were"
_OTHER_NAMES = compile_lazily(
    r"""
      # NameError: name 'a'
      (?P<class_>\b(ImportError|ModuleNotFoundError|NameError|NoMethodError)\b)
    | (?P<node>\bERR_MODULE_NOT_FOUND\b|is[ ]not[ ](a[ ]function|defined))  # a is not a function
    | (?P<python>has[ ]no[ ]attribute|unexpected[ ]keyword[ ]argument)      # A has no attribute 'b'
    | (?P<java>cannot[ ]find[ ]symbol)  # error: cannot find symbol
    # Cannot find name 'a'
    | (?P<types>Cannot[ ]find[ ](module|name|package)|does[ ]not[ ]exist[ ]on[ ]type)
    | (?P<ruby>cannot[ ]load[ ]such[ ]file)  # cannot load such file -- a
    | (?P<go>undefined:[ ]|\[build[ ]failed\])  # a.go:3:2: undefined: total
    | (?P<rust>unresolved[ ]import|could[ ]not[ ]compile)  # unresolved import `a::b`
    """,
    re.VERBOSE,
)
"""What failures say that come from names: what was renamed is judged by what it is called for."""


def run_old_tests(subject: EvidenceSubject, lab: Lab) -> Evidence:
    """Where a change touches tests too: the product code after with the tests before."""
    tests = [
        file
        for file in subject.change.files
        if read_sides(file)[0].is_test_file and file.status in "MRD"
    ]
    if not tests or not lab.commands:
        return Evidence()
    back = {file.raw_old_path: file.old for file in tests}
    gone = {f.raw_path: None for f in tests if f.status == "R"}
    tree = lab.build_variant(subject.tree, {**gone, **back})
    for number, command in enumerate(lab.commands, 1):
        log, argv = f"old-tests-{number}", tuple(shlex.split(command))
        result = lab.run(tree, argv, log)
        if not result.ok and not lab.run(tree, argv, f"{log}-again").ok:
            return _judge_failure(subject, lab, command, result, log)
    return Evidence((Check(TITLE, CheckOutcome.PASSED, "they pass on the changed product code"),))


def _judge_failure(
    subject: EvidenceSubject, lab: Lab, command: str, result: CommandResult, log: str
) -> Evidence:
    how = result.error or f"exit {result.exit_status}"
    text = f"`{command}` fails with the product code after and the tests before ({how})"
    if _OTHER_NAMES.search(lab.read_output(log)):
        text += ", where they use names that are not there any more"
        return Evidence((Check(TITLE, CheckOutcome.UNDECIDED, text),))
    if result.error:
        return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, text),))
    found = raise_flag("old-tests-fail", subject.context, "", 0, f"{text}: it behaves differently.")
    return Evidence((Check(TITLE, CheckOutcome.FAILED, text),), found)
