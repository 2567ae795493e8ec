"""The one hook for code planted in this program, as an exploit of it would bring it."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

PACKAGE = "gitlab_nightshift"


def find_place(place: str) -> tuple[Any, str]:
    """What holds the function or method, and its name. Raises AttributeError, ImportError: in one
    of this program's processes that could pass for the death that a test is about."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(f"{PACKAGE}.{module}"))
    getattr(owner, name)
    return owner, name


def plant(place: str, code: Callable[..., Any]) -> None:
    """From here on in this process, call ``code(honest, ...)`` instead of ``honest(...)``, the
    function or method at ``place`` (``module:name`` in the package)."""
    owner, name = find_place(place)
    honest = getattr(owner, name)

    @functools.wraps(honest)
    def planted(*args: Any, **kwargs: Any) -> Any:
        return code(honest, *args, **kwargs)

    setattr(owner, name, planted)
