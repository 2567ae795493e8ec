"""A setting in a file that is a program, and where it stands there."""

from dataclasses import dataclass

from gitlab_nightshift.verdict.tooling.directions import Worse


@dataclass(frozen=True)
class Pattern:
    """A setting in a text: what it is called, and where its value stands.

    With two groups the first names it further. ``many`` takes all matches as one list, with
    ``inside`` the quoted texts within each. ``raw`` looks at the head of the file, comments too.
    """

    flag: str
    name: str
    text: str
    worse: Worse
    many: bool = False
    inside: bool = False
    raw: bool = False


Patterns = tuple[tuple[str, tuple[Pattern, ...]], ...]
"""Files by a pattern of their path, with the settings to look for; the first match counts."""

LIST = r"\s*[:=(]\s*\[?(?:listOf|Seq|List|Set|setOf)?\(?([^\])}]*)[\])}]"
"""What stands in the brackets behind a name."""
