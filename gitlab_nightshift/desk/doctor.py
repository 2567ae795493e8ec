"""``nightshift doctor --boundary``: what is safe on this very runner, tried and not guessed."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.host.environment import search_path
from gitlab_nightshift.host.git import with_machine_config
from gitlab_nightshift.host.paths import short_folder
from gitlab_nightshift.host.sandbox.attempts import Targets
from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.own_code import folders_of
from gitlab_nightshift.host.sandbox.ownership import give
from gitlab_nightshift.host.sandbox.places import HOME_FILES
from gitlab_nightshift.host.sandbox.probe import Missing, survey
from gitlab_nightshift.host.sandbox.proof import prove, table
from gitlab_nightshift.host.sandbox.records import Confinement


@dataclass(frozen=True)
class Diagnosis:
    """Lines for a person, and whether a night could run here with a boundary that holds."""

    lines: tuple[str, ...]
    good: bool


def examine_boundary(env: Mapping[str, str], checkout: Path) -> Diagnosis:
    """Try every tier, and prove the strongest that works, with the real places of this runner."""
    with short_folder(Path(tempfile.gettempdir())) as private:
        private.chmod(0o711)  # another user has to pass through
        found = survey(private, checkout)
        lines = [_tier_line(row) for row in found]
        best = next((row for row in found if isinstance(row, Sandbox)), None)
        if best is None:
            return Diagnosis(
                (*lines, "no tier works here: a night would stop before any agent"), False
            )
        scratch = private / "scratch"
        scratch.mkdir()
        if best.identity:
            give(scratch, (best.identity.uid, best.identity.gid))
        path, home = search_path(env, checkout), Path(env.get("HOME", "/"))
        targets = Targets(
            secrets=tuple(_secrets(env, checkout)),
            outside=(private,),
            written=folders_of(env, checkout),
            git=with_machine_config(private / "git", path, home),
        )
        proof = prove(best, Confinement(scratch, (scratch,)), targets)
        told = "every promise is kept" if proof.held else proof.trouble or "there are holes"
        lines += [f"{best.tier}: {told}", *(f"  {line}" for line in table(proof))]
        return Diagnosis(tuple(lines), proof.held)


def _tier_line(row: Sandbox | Missing) -> str:
    if isinstance(row, Missing):
        return f"{row.tier}: not here: {row.reason}"
    return f"{row.tier}: works"


def _secrets(env: Mapping[str, str], checkout: Path) -> Iterator[Path]:
    home = Path(env.get("HOME", "/"))
    places = (
        checkout / ".git" / "config",
        checkout.with_name(f"{checkout.name}.tmp"),
        *(home / name for name in HOME_FILES),
    )
    return (place for place in places if os.path.lexists(place))
