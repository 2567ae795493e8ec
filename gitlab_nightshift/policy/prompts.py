"""Loading, checking and rendering prompt templates. The preamble, which is part of every prompt, is
code: no setting can remove or move it."""

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.registry.categories import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import PLACEHOLDER, PLACEHOLDERS

BEADS = ("analyze", "implement", "verify", "mr")
SEPARATOR = "\n---\n\n"
LARGEST_TEMPLATE = 200_000
"""Bytes."""


def load_bead_template(bead: str, settings: Settings, folder: Path) -> str:
    """A bead's template: the team's own, or else the packaged one.

    ``folder`` is that of the configuration file. Raises ``E_CONFIG`` for a file that is missing or
    not text, and for an unknown placeholder.
    """
    team_file = getattr(settings.prompts, bead)
    path = folder / team_file if team_file else find_packaged_templates() / f"{bead}.md"
    where = f"prompts.{bead}: {path}"
    text = _read_template(path, where)
    check_placeholders(text, {*PLACEHOLDERS, *settings.variables}, where)
    return text


def _read_template(path: Path, where: str) -> str:
    # Only regular files: reading a device or a pipe might never end.
    if not path.exists():
        raise build_config_error(f"{where}: no such template")
    if not path.is_file():
        raise build_config_error(f"{where}: not a file")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_TEMPLATE + 1)
        if len(data) > LARGEST_TEMPLATE:
            raise build_config_error(f"{where}: larger than {LARGEST_TEMPLATE} bytes")
        text = data.decode("utf-8")
    except OSError as error:
        raise build_config_error(f"{where}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise build_config_error(f"{where}: not UTF-8 text") from None
    if "\0" in text:  # UTF-8 allows it, but no text file has it
        raise build_config_error(f"{where}: not UTF-8 text")
    return text


def check_placeholders(text: str, names: Collection[str], where: str) -> None:
    """Raise ``E_CONFIG`` for unknown placeholders: a line each, with a suggestion."""
    unknown: list[str] = []
    for match in PLACEHOLDER.finditer(text):
        name = match[1]
        if name is not None and name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {{{{{near[0]}}}}}?" if near else ""
            line = text.count("\n", 0, match.start()) + 1
            unknown.append(f"{where}:{line}: unknown placeholder {{{{{name}}}}}{hint}")
    if unknown:
        raise build_config_error("\n".join(unknown))


def render(template: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders in one pass, so that values are not rendered again; ``\\{{`` becomes
    ``{{``. A placeholder without a value becomes empty."""
    return PLACEHOLDER.sub(lambda m: "{{" if m[1] is None else values.get(m[1], ""), template)


def render_bead_prompt(
    template: str, values: Mapping[str, str], brief: str = "", last_sections: str = ""
) -> str:
    """The whole prompt: the shared beginning, the separator, the rendered template, then
    ``last_sections``."""
    # What varies comes last: a provider's prompt cache needs an equal beginning.
    return render_shared_beginning(brief) + SEPARATOR + render(template, values) + last_sections


def render_shared_beginning(brief: str) -> str:
    """The beginning of all prompts of a run: the preamble, then the brief as data."""
    return INJECTION_MITIGATION_PREAMBLE + (f"\n{brief}" if brief else "")


def find_packaged_templates() -> Path:
    """The folder of the packaged templates: in the wheel, or at the root of a source tree."""
    package = Path(__file__).parents[1]
    installed = package / "_prompts"
    return installed if installed.is_dir() else package.parent / "prompts"
