"""Load, check and render prompt templates. The preamble is code: no setting moves it."""

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.guidance import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.settings.values import PLACEHOLDERS

BEADS = ("analyze", "implement", "verify", "mr")
SEPARATOR = "\n---\n\n"
_MARK = re.compile(r"\\\{\{|\{\{([a-z][a-z0-9_]*)\}\}")
LARGEST_TEMPLATE = 200_000


def load_bead_prompt(bead: str, settings: Settings, folder: Path) -> str:
    """A bead's template: the team's own, else the packaged one; every placeholder is checked.

    ``folder`` is the configuration file's. Raises ``E_CONFIG`` for a file that is missing or not
    text, and for an unknown placeholder.
    """
    own = getattr(settings.prompts, bead)
    path = folder / own if own else packaged_folder() / f"{bead}.md"
    where = f"prompts.{bead}: {path}"
    text = _text(path, where)
    check_placeholders(text, {*PLACEHOLDERS, *settings.variables}, where)
    return text


def _text(path: Path, where: str) -> str:
    if not path.exists():
        raise config_error(f"{where}: no such template")
    if not path.is_file():
        raise config_error(f"{where}: not a file")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_TEMPLATE + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise config_error(f"{where}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise config_error(f"{where}: not UTF-8 text") from None
    if len(data) > LARGEST_TEMPLATE:
        raise config_error(f"{where}: larger than {LARGEST_TEMPLATE} bytes")
    if "\0" in text:
        raise config_error(f"{where}: not UTF-8 text")
    return text


def check_placeholders(text: str, known: Collection[str], where: str) -> None:
    """Raise ``E_CONFIG`` for placeholders that are not known, a line each, with the nearest."""
    unknown: list[str] = []
    for match in _MARK.finditer(text):
        name = match[1]
        if name is not None and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {{{{{near[0]}}}}}?" if near else ""
            line = text.count("\n", 0, match.start()) + 1
            unknown.append(f"{where}:{line}: unknown placeholder {{{{{name}}}}}{hint}")
    if unknown:
        raise config_error("\n".join(unknown))


def render(template: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders in one pass: a value is never rendered again, ``\\{{`` becomes ``{{``.

    A placeholder that has no value yet is empty.
    """
    return _MARK.sub(lambda m: "{{" if m[1] is None else values.get(m[1], ""), template)


def bead_prompt(template: str, values: Mapping[str, str]) -> str:
    """The whole prompt: preamble, separator, rendered template."""
    return INJECTION_MITIGATION_PREAMBLE + SEPARATOR + render(template, values)


def packaged_folder() -> Path:
    """The folder of the packaged templates: inside the wheel, or at the root of a source tree."""
    package = Path(__file__).parent
    installed = package / "_prompts"
    return installed if installed.is_dir() else package.parent / "prompts"
