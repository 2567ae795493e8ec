"""Names of a package that are loaded when they are first asked for.

Records and settings take long to load, and most processes need few of them.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def load_lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``; ``modules`` are its modules, each with its names in one text."""
    places = {name: module for module, names in modules.items() for name in names.split()}

    def find_name(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        made = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, made)
        return made

    return find_name
