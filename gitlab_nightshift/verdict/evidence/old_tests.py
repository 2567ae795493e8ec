"""A change that leaves behaviour alone passes the tests as they were."""

import shlex

from gitlab_nightshift.records import Check, Seen
from gitlab_nightshift.verdict.evidence.lab import Evidence, Lab, Subject
from gitlab_nightshift.verdict.syntax.side import sides

TITLE = "The tests as they were"


def old_tests(subject: Subject, lab: Lab) -> Evidence:
    """Where a change touches tests too: the product code after with the tests before."""
    tests = [
        file
        for file in subject.change.files
        if sides(file)[0].is_test_file and file.status in "MRD"
    ]
    if not tests or not lab.commands:
        return Evidence()
    back = {file.difference.old_path: file.difference.old for file in tests}
    gone = {f.difference.path: None for f in tests if f.status == "R"}
    tree = lab.variant(subject.tree, {**gone, **back})
    for number, command in enumerate(lab.commands, 1):
        result = lab.run(tree, tuple(shlex.split(command)), f"old-tests-{number}")
        if not result.ok:
            how = result.error or f"exit {result.exit_status}"
            text = f"`{command}` fails with the product code after and the tests before ({how})"
            return Evidence((Check(TITLE, Seen.FAILED, text),))
    return Evidence((Check(TITLE, Seen.PASSED, "they pass on the changed product code"),))
