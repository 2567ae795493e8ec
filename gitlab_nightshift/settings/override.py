"""Settings with some values of one run over them, such as a person asked for."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.settings.model import Settings


def override_settings(settings: Settings, values: Mapping[str, Any], source: str) -> Settings:
    """The same settings but for some dotted keys, checked like all others.

    ``source`` is what ``config show`` would say. Raises ``E_CONFIG`` for a value that cannot be.
    """
    from pydantic import ValidationError

    data = asdict(settings)
    for key, value in values.items():
        *path, name = key.split(".")
        part = data
        for each in path:
            part = part[each]
        part[name] = value
    try:
        made = build_settings(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        text = str(first["msg"]).removeprefix("Value error, ")
        raise build_config_error(f"{source}: {place}: {text}") from None
    return made.with_values(sources={**settings.sources, **dict.fromkeys(values, source)})
