"""The JSON Schema of the configuration file, for editors, with the texts under its keys."""

import ast
import inspect
import itertools
from dataclasses import MISSING, asdict, fields
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from gitlab_nightshift.settings import model, setting_groups
from gitlab_nightshift.settings.config_file import ALIAS
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import SettingsGroup


def build_schema() -> dict[str, Any]:
    """The JSON Schema of the settings. It reads the texts from the source: no run needs them."""
    made = TypeAdapter(Settings).json_schema()
    kinds = {**made["$defs"], Settings.__name__: made}
    for kind in SettingsGroup.__subclasses__():
        if kind.__name__ in kinds:  # fleet.yaml's groups are subclasses, too
            _add_defaults(kinds[kind.__name__], kind)
    for module in (setting_groups, model):
        describe(kinds, module)
    made["properties"][ALIAS] = {"$ref": "#", "description": "The same keys once more."}
    return made


def _add_defaults(schema: dict[str, Any], kind: type[SettingsGroup]) -> None:
    """Add the text of the class, and defaults made by factories."""
    schema["description"] = inspect.cleandoc(kind.__doc__ or "")
    for each in fields(kind):
        if each.default_factory is not MISSING:
            default = each.default_factory()
            made = asdict(default) if isinstance(default, SettingsGroup) else default
            schema["properties"][each.name]["default"] = made


def describe(kinds: dict[str, Any], module: ModuleType) -> None:
    """Add the texts under a module's attributes to the schemas of its classes."""
    for name, texts in _read_attribute_texts(module).items():
        for key, text in texts.items():
            if name in kinds:
                kinds[name]["properties"][key]["description"] = text


def _read_attribute_texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class → key → the text under it."""
    tree = ast.parse(inspect.getsource(module))
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    return {each.name: dict(_list_key_texts(each.body)) for each in classes}


def _list_key_texts(body: list[ast.stmt]) -> list[tuple[str, str]]:
    return [
        (key.target.id, inspect.cleandoc(text.value.value))
        for key, text in itertools.pairwise(body)
        if isinstance(key, ast.AnnAssign)
        and isinstance(key.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]
