"""Has people told how a run ended. That never changes how it ended: what fails is a warning."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from gitlab_nightshift.sandbox.process_table import NOTIFY
from gitlab_nightshift.sandbox.supervised_process import StageProcess

_VARIABLE = r"\$(?:\{(\w+)\}|(\w+))"

Forward = Callable[[StageProcess], AbstractContextManager[None]]


def notify(
    request: Mapping[str, Any],
    results: Path,
    env: Mapping[str, str],
    own: Mapping[str, str],
    forward: Forward = lambda _: contextlib.nullcontext(),
) -> tuple[str, ...]:
    """Tell people of the result in this folder; warnings about what they were not told.

    ``request`` holds ``addresses`` (``notify``), ``on`` (``notify_on``), ``before``, the outcome
    of the night before, and ``page``, that of Confluence; ``env`` the variables that are named,
    ``own`` those of the process.
    """
    addresses, missing = expand_addresses(request.get("addresses", ()), env)
    access, more = find_confluence(request.get("page", ""), env)
    missing += more
    if not (addresses or access) or not (results / "result.json").exists():
        return missing
    places = {"results": str(results), "named": find_named_files(addresses)}
    process = StageProcess(NOTIFY, own, quiet=True, places=places)
    with contextlib.closing(process), forward(process):
        found = {"addresses": addresses, "confluence": access, "results": str(results)}
        process.send_task({**request, **found})
        answer = process.read_answer()
    return (*missing, *answer.get("warnings", ("notify: its process ended before it was done",)))


def expand_addresses(
    given: Sequence[str], env: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The addresses with the values of the variables that they name, and a warning for each without
    a value. A variable may hold several addresses, with spaces between."""
    found: list[str] = []
    warnings: list[str] = []
    for text in given:
        empty = [name for name in find_names(text) if not env.get(name, "").strip()]
        warnings += [f"notify: the variable {name} is not set in this job" for name in empty]
        if not empty:
            found += re.sub(_VARIABLE, lambda name: env[name[1] or name[2]], text).split()
    return tuple(found), tuple(warnings)


def find_named_files(addresses: Sequence[str]) -> tuple[str, ...]:
    """The files that addresses name, such as Firebase's ``?keyfile=``: absolute paths."""
    queries = (address.partition("?")[2] for address in addresses)
    values = [value for query in queries for _, value in parse_qsl(query)]
    return tuple(value for value in values if value.startswith("/"))


def find_names(address: str) -> list[str]:
    """The variables that an address names."""
    return [one or other for one, other in re.findall(_VARIABLE, address)]


def find_confluence(page: str, env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """How to write to a page of Confluence, {} for none, and a warning for each variable that is
    missing."""
    if not page:
        return {}, ()
    names = {"url": "CONFLUENCE_URL", "token": "CONFLUENCE_TOKEN", "user": "CONFLUENCE_USER"}
    given = {key: env.get(name, "").strip() for key, name in names.items()}
    missing = tuple(
        f"confluence_page_id: the variable {names[key]} is not set in this job"
        for key in ("url", "token")
        if not given[key]
    )
    return ({} if missing else {"page": page, **given}), missing
