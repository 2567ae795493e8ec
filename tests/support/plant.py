"""The one hook for code planted in this program, as an exploit of it would bring it."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

PACKAGE = "gitlab_nightshift"


def plant(place: str, code: Callable[..., Any]) -> None:
    """From here on in this process, call ``code(honest, ...)`` instead of ``honest(...)``, the
    function or method at ``place`` (``module:name`` in the package)."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(f"{PACKAGE}.{module}"))
    honest = getattr(owner, name)

    @functools.wraps(honest)
    def planted(*args: Any, **kwargs: Any) -> Any:
        return code(honest, *args, **kwargs)

    setattr(owner, name, planted)
