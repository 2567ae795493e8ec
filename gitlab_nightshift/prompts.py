"""Load, check and render prompt templates. The preamble is code: no setting moves it."""

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.guidance import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.settings import Settings

BEADS = ("analyze", "implement", "verify", "mr")
SEPARATOR = "\n---\n\n"
PLACEHOLDERS = frozenset(
    """category category_guidance date repo_url project_path default_branch base_sha handoff_file
    analysis_file verify_error allowed_commands build_commands verify_commands recent_files
    open_merge_requests rejected_ideas max_diff_lines deadline reviewer
    short_description""".split()
)
_MARK = re.compile(r"\\\{\{|\{\{([a-z][a-z0-9_]*)\}\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
LARGEST_TEMPLATE = 200_000


def load_bead_prompt(bead: str, settings: Settings, folder: Path) -> str:
    """A bead's template: the team's own, else the packaged one; every placeholder is checked.

    ``folder`` is the configuration file's. Raises ``E_CONFIG`` for a file that is missing or not
    text, and for an unknown placeholder.
    """
    own = getattr(settings.prompts, bead)
    path = folder / own if own else packaged_folder() / f"{bead}.md"
    where = f"prompts.{bead}: {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise config_error(f"{where}: no such template") from None
    except (OSError, UnicodeDecodeError) as error:
        raise config_error(f"{where}: cannot be read: {error}") from None
    if len(text) > LARGEST_TEMPLATE:
        raise config_error(f"{where}: larger than {LARGEST_TEMPLATE} characters")
    check_placeholders(text, {*PLACEHOLDERS, *settings.variables}, where)
    return text


def check_variables(variables: Mapping[str, str]) -> None:
    """The team's own names: the grammar of placeholders, and no built-in's name (``E_CONFIG``)."""
    for name in variables:
        if not _NAME.fullmatch(name):
            raise config_error(f"variables.{name}: a name is lower-case letters, digits and _")
        if name in PLACEHOLDERS:
            raise config_error(f"variables.{name}: is built in; choose another name")


def check_placeholders(text: str, known: Collection[str], where: str) -> None:
    """Raise ``E_CONFIG`` for a placeholder that is not known, with the nearest that is."""
    for match in _MARK.finditer(text):
        name = match[1]
        if name is not None and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {{{{{near[0]}}}}}?" if near else ""
            line = text.count("\n", 0, match.start()) + 1
            raise config_error(f"{where}:{line}: unknown placeholder {{{{{name}}}}}{hint}")


def render(template: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders in one pass: a value is never rendered again, ``\\{{`` stays ``{{``."""
    return _MARK.sub(lambda m: "{{" if m[1] is None else values.get(m[1], m[0]), template)


def bead_prompt(template: str, values: Mapping[str, str]) -> str:
    """The whole prompt: preamble, separator, rendered template."""
    return INJECTION_MITIGATION_PREAMBLE + SEPARATOR + render(template, values)


def packaged_folder() -> Path:
    """The folder of the packaged templates: inside the wheel, or at the root of a source tree."""
    package = Path(__file__).parent
    installed = package / "_prompts"
    return installed if installed.is_dir() else package.parent / "prompts"
