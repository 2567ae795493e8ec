"""Chooses who reviews a merge request: by name, group, CODEOWNERS or approval rules.

Among several people, the one with the fewest open reviews is chosen.
CODEOWNERS is read by GitLab's rules: https://docs.gitlab.com/user/project/codeowners/reference/
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gitlab_nightshift.gitlab.accounts import GitlabUser, People
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import APPROVAL_RULES, CODE_OWNERS, GROUP
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST_REVIEWERS = 5
"""Reviewers of a merge request, whatever the settings ask for."""
MOST_STATUS_CHECKS = 10
"""Members of one group whose status is checked: each costs a request."""
# GitLab's access levels (docs.gitlab.com/api/access_requests).
ROLES = {"developer": 30, "maintainer": 40, "owner": 50}
# docs.gitlab.com/user/project/codeowners/reference: "^" makes a section optional, "[2]" needs two
# approvals, its owners are the default of its entries; "@@" names a role, "!" excludes.
_SECTION = compile_lazily(r"\^?\[([^\]]+)\](?:\[\d+\])?((?:\s+\S+)*)\s*")
_ENTRY = compile_lazily(r"((?:\\.|[^\s\\])+)((?:\s+\S+)*)\s*")
_OWNER = compile_lazily(r"@@?[\w./-]+")
_GLOB_TOKEN = compile_lazily(r"\*\*/|\*\*|\*|\?|\\.|.", re.DOTALL)
# As Ruby's File.fnmatch with FNM_PATHNAME and FNM_DOTMATCH, which GitLab uses.
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class MergeRequestFacts:
    """What the choice depends on, besides settings: the changed ``files``, the ``target`` branch,
    the ``author``'s user id, and a ``seed`` for choosing among people with equally many open
    reviews."""

    files: tuple[str, ...]
    target: str
    author: int
    seed: str


def choose_reviewers(
    settings: Settings, people: People, facts: MergeRequestFacts
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The ids of the reviewers, and a warning for each setting that could not be followed."""
    choice = _Choice(people, facts)
    for name in settings.all_reviewers:
        try:
            if name == CODE_OWNERS:
                choice.add_code_owners()
            elif name == APPROVAL_RULES:
                choice.add_approvers()
            elif name.startswith(GROUP):
                choice.add_from_group(name.removeprefix(GROUP))
            else:
                choice.add_user(name)
        except ApiError as error:
            choice.warnings.append(f"reviewer {name} could not be looked up: {error}")
    return tuple(choice.chosen)[:MOST_REVIEWERS], tuple(choice.warnings)


class _Choice:
    """The reviewers chosen so far (user id → login), and the warnings."""

    def __init__(self, people: People, facts: MergeRequestFacts) -> None:
        self._people, self._facts = people, facts
        self.chosen: dict[int, str] = {}
        self.warnings: list[str] = []

    def add_user(self, name: str) -> None:
        """Add the user of this name, if active and not busy."""
        person = self._people.find_user(name)
        if person is None:
            self.warnings.append(f"reviewer {name} is unknown to GitLab")
        elif not person.active:
            self.warnings.append(f"reviewer {name} is left out: the account is blocked, or a bot's")
        elif self._people.is_busy(person):
            self.warnings.append(f"reviewer {name} is left out: busy, as the status in GitLab says")
        else:
            self.chosen[person.id] = person.username

    def add_from_group(self, path: str) -> None:
        """Add one member of a group."""
        members = self._people.list_group_members(path)
        if members is None:
            self.warnings.append(
                f"no reviewer is from group {path}: there is none, or the token may not see it"
            )
        else:
            self._add_from(members, 1, f"group {path}")

    def add_code_owners(self) -> None:
        """Add one owner from each set of owners that the changed files have."""
        text = self._people.read_owners_file(self._facts.target)
        if text is None:
            self.warnings.append(f"there is no CODEOWNERS on {self._facts.target}")
            return
        for owners in find_owners(text, self._facts.files):
            self._add_from(self._list_owners(owners), 1, f"code owners {' '.join(owners)}")

    def add_approvers(self) -> None:
        """Add as many people for each approval rule as it requires."""
        rules = self._people.list_approval_rules(self._facts.target)
        if rules is None:
            self.warnings.append(
                "no reviewer is from the approval rules: they need GitLab Premium, and a token that"
                " may read them"
            )
        for rule in rules or ():
            if rule.required and rule.approvers:
                self._add_from(rule.approvers, rule.required, f"approval rule {rule.name}")

    def _list_owners(self, owners: Iterable[str]) -> list[GitlabUser]:
        users: list[GitlabUser] = []
        for owner in owners:
            name = owner.lstrip("@")
            role = ROLES.get(name.removesuffix("s"))  # GitLab knows @@developer and @@developers
            if owner.startswith("@@"):
                users += [member for member in self._members if member.level == role]
            elif "/" not in name and (user := self._people.find_user(name)):
                users.append(user)
            else:
                users += self._people.list_group_members(name) or ()
        return users

    def _add_from(self, people: Sequence[GitlabUser], required: int, source: str) -> None:
        """Add people until ``required`` of them are reviewers, including those chosen before."""
        able = {person.id: person for person in people if self._can_review(person)}
        missing = required - len(able.keys() & self.chosen.keys())
        candidates = [person for person in able.values() if person.id not in self.chosen]
        for person in sorted(candidates, key=self._rank)[:MOST_STATUS_CHECKS]:
            if missing <= 0:
                return
            if not self._people.is_busy(person):
                self.chosen[person.id] = person.username
                missing -= 1
        if missing > 0:
            self.warnings.append(f"{source}: nobody is left who can review and is not busy")

    def _can_review(self, person: GitlabUser) -> bool:
        return person.active and person.id != self._facts.author

    def _rank(self, person: GitlabUser) -> tuple[int, str]:
        # A hash with the seed, not a random number: a retry chooses the same people.
        digest = hashlib.sha256(f"{self._facts.seed} {person.id}".encode()).hexdigest()
        return self._open_reviews.get(person.id, 0), digest

    @cached_property
    def _open_reviews(self) -> Mapping[int, int]:
        return self._people.count_open_reviews()

    @cached_property
    def _members(self) -> tuple[GitlabUser, ...]:
        return self._people.list_members()


@dataclass
class _OwnerSection:
    """A section of CODEOWNERS: its default owners, and its entries (pattern, owners) in order."""

    owners: tuple[str, ...] = ()
    entries: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def find_owners(text: str, files: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The distinct sets of owners of these files: in each section the last matching entry counts.
    An owner is ``@name``, ``@group/path`` or ``@@role``; e-mail addresses are left out."""
    sections = tuple(_read_sections(text).values())
    owner_sets = (_find_in_section(section, file) for file in files for section in sections)
    return tuple(dict.fromkeys(owners for owners in owner_sets if owners))


def _read_sections(text: str) -> dict[str, _OwnerSection]:
    """The sections by name in lower case: a repeated name, in any case, continues its section."""
    sections = {"": _OwnerSection()}
    current = sections[""]
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if head := _SECTION.fullmatch(line):
            current = sections.setdefault(head[1].strip().lower(), _OwnerSection())
            current.owners = _read_owners(head[2]) or current.owners
        elif entry := _ENTRY.fullmatch(line):
            # An entry without owners of its own has those of its section.
            current.entries.append((entry[1], _read_owners(entry[2]) or current.owners))
    return sections


def _read_owners(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in text.split() if _OWNER.fullmatch(word)))


def _find_in_section(section: _OwnerSection, file: str) -> tuple[str, ...]:
    """The owners from the last matching entry; none if an entry with ``!`` excludes the file."""
    owners: tuple[str, ...] = ()
    for pattern, entry_owners in section.entries:
        if not _matches(pattern.removeprefix("!"), file):
            continue
        if pattern.startswith("!"):
            return ()
        owners = entry_owners
    return owners


def _matches(pattern: str, file: str) -> bool:
    """True if a pattern matches the path of a file. Without a leading slash it matches at any
    depth, with a trailing slash the content of a folder; ``*`` does not match a slash."""
    if not pattern.startswith("/"):
        pattern = f"/**/{pattern}"
    if pattern.endswith("/"):
        pattern = f"{pattern}**"
    tokens = _GLOB_TOKEN.findall(pattern)
    regex = "".join(_WILDCARDS.get(t) or re.escape(t.removeprefix("\\")) for t in tokens)
    return re.fullmatch(regex, f"/{file}") is not None
