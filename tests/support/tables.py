"""Tables of cases as one test each: thousands of ids cost more than what most of them do."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Like ``pytest.mark.parametrize``, as one test: all cases are tried; it names those that fail.

    The cases share the test's fixtures: none of them may be spent by a case.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [case if len(keys) > 1 else (case,) for case in cases]
    assert table, "no cases"

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def whole(**fixtures: Any) -> None:
            failures = []
            for case in table:
                try:
                    test(**fixtures, **dict(zip(keys, case, strict=True)))
                except (Exception, pytest.fail.Exception, BaseExceptionGroup) as error:
                    error.add_note(f"case: {', '.join(map(repr, case)):.500}")
                    failures.append(error)
            if failures:
                message = f"{len(failures)} of {len(table)} cases fail"
                raise BaseExceptionGroup(message, failures)

        left = [value for name, value in signature.parameters.items() if name not in keys]
        whole.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return whole

    return decorate
