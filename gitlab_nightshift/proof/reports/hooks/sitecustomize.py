"""Makes unittest write a report: a line of JSON for each test, [name, outcome], into a file named
after the process. Pytest's own report gets the name of the process, too.

Python's ``site`` imports the first module with this name at startup. It shadows any other, which is
therefore imported here. Processes that a pytest test starts write no report.
"""

import os
import re
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

TYPE_CHECKING = False  # typing's constant; typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from unittest import TestCase, TestResult

FOLDER = "NIGHTSHIFT_REPORTS"
_HERE = str(Path(__file__).parent)


def record_unittest(folder: str) -> None:
    """Wrap the methods with which unittest records the outcome of a test."""
    from unittest import TestResult

    path = Path(folder, f"unittest-{os.getpid()}.jsonl")
    path.touch()  # an empty report, if no test runs
    outcomes = {
        "addSuccess": "passed",
        "addFailure": "failed",
        "addError": "failed",
        "addUnexpectedSuccess": "failed",
        "addSkip": "skipped",
        "addExpectedFailure": "skipped",
    }
    for method, outcome in outcomes.items():
        setattr(TestResult, method, _wrap_method(getattr(TestResult, method), path, outcome))
    record_failure = _wrap_method(lambda _self, _test: None, path, "failed")
    add = TestResult.addSubTest

    def add_subtest(self: "TestResult", test: "TestCase", subtest: "TestCase", err: object) -> None:
        if err is not None:  # no other method is called for a test with a failed subtest
            record_failure(self, test)
        add(self, test, subtest, err)  # type: ignore[arg-type]

    TestResult.addSubTest = add_subtest  # type: ignore[method-assign]


def _wrap_method(
    method: "Callable[..., object]", path: Path, outcome: str
) -> "Callable[..., object]":
    import json

    def record(self: "TestResult", test: "TestCase", *args: object, **kwargs: object) -> object:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([test.id(), outcome]) + "\n")
        return method(self, test, *args, **kwargs)

    return record


def _import_shadowed() -> None:
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if p != _HERE])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def is_unittest(words: "list[str]") -> bool:
    """True for ``python -m unittest …`` and ``manage.py test``."""
    return "unittest" in words or ("test" in words and any(w.endswith("manage.py") for w in words))


def rename_report(folder: str) -> None:
    """Give this process a report of its own: several runs of pytest in one command would otherwise
    overwrite each other's."""
    options = os.environ.get("PYTEST_ADDOPTS", "")
    path = re.escape(f"{folder}/pytest") + r"(-\d+)?\.xml"
    if re.search(path, options):
        new_path = f"{folder}/pytest-{os.getpid()}.xml"
        os.environ["PYTEST_ADDOPTS"] = re.sub(path, lambda _match: new_path, options)


if os.environ.get(FOLDER):
    if "PYTEST_CURRENT_TEST" not in os.environ:
        rename_report(os.environ[FOLDER])
        if is_unittest(getattr(sys, "orig_argv", [])):
            record_unittest(os.environ[FOLDER])
    _import_shadowed()
