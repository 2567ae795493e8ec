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
    """The JSON Schema of the settings, with the texts under the keys in the source code."""
    schema = TypeAdapter(Settings).json_schema()
    schemas = {**schema["$defs"], Settings.__name__: schema}
    for group in SettingsGroup.__subclasses__():
        if group.__name__ in schemas:  # fleet.yaml's groups are subclasses, too
            _complete_schema(schemas[group.__name__], group)
    for module in (setting_groups, model):
        add_descriptions(schemas, module)
    schema["properties"][ALIAS] = {"$ref": "#", "description": "The same keys once more."}
    return schema


def _complete_schema(schema: dict[str, Any], group: type[SettingsGroup]) -> None:
    """Add the docstring of the class, and the defaults that factories make."""
    schema["description"] = inspect.cleandoc(group.__doc__ or "")
    for each in fields(group):
        if each.default_factory is not MISSING:
            default = each.default_factory()
            data = asdict(default) if isinstance(default, SettingsGroup) else default
            schema["properties"][each.name]["default"] = data


def add_descriptions(schemas: dict[str, Any], module: ModuleType) -> None:
    """Add the texts under the attributes of a module's classes to their ``schemas``, by name."""
    for name, texts in _read_attribute_texts(module).items():
        if name in schemas:
            for key, text in texts.items():
                schemas[name]["properties"][key]["description"] = text


def _read_attribute_texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class → attribute → the text under it."""
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
