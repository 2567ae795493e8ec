"""``nightshift patch``: a model is asked for blocks, and nothing is changed."""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.by_hand.execute import told
from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.events import Emit, Event, Note
from gitlab_nightshift.guidance import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import NETWORK, search_path
from gitlab_nightshift.host.git import Git
from gitlab_nightshift.host.paths import short_folder
from gitlab_nightshift.patching import tree
from gitlab_nightshift.patching.asking import answered
from gitlab_nightshift.patching.blocks import Block, Malformed, no_change, parse
from gitlab_nightshift.patching.chat import Chat, EndpointError, Message
from gitlab_nightshift.patching.context import CONTEXT_TOKENS, TooSmall, Wanted, chosen
from gitlab_nightshift.patching.edits import Edit, NotApplicable, planned
from gitlab_nightshift.patching.listing import is_secret, listed
from gitlab_nightshift.patching.wording import NO_BLOCKS, system_text, user_text
from gitlab_nightshift.policy.paths import within
from gitlab_nightshift.prompts import SEPARATOR
from gitlab_nightshift.records import Usage
from gitlab_nightshift.session import Call, config_file, top_of
from gitlab_nightshift.settings import Settings, load_settings
from gitlab_nightshift.settings.parts import Models
from gitlab_nightshift.work.access import MODEL_VARIABLES, BeadAccess, open_access
from gitlab_nightshift.work.agents.patch import BASE_URL, KEY, Patch
from gitlab_nightshift.work.bounds import check_bounds
from gitlab_nightshift.work.egress import Egress

TASK = """\
# Task: make one change

A person asked for this change of the repository below. Do exactly what it asks for and nothing
else, as small as does it well. Look like the neighbours: names, error handling, form of tests,
amount of comment, indentation.

<task>
{task}
</task>
"""


@dataclass(frozen=True)
class Wish:
    """What ``patch`` is asked: ``files`` are shown whole, ``tokens`` bounds what is shown."""

    task: str | None
    model: str | None
    files: tuple[str, ...] = ()
    tokens: int = CONTEXT_TOKENS


@dataclass(frozen=True)
class Proposal:
    """What the model proposes, checked against the files as they are; nothing is changed.

    ``reason`` is why it proposes nothing, "" where it does.
    """

    blocks: tuple[Block, ...]
    edits: tuple[Edit, ...]
    model: str
    usage: Usage
    reason: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Desk:
    """The checkout that a command runs in."""

    top: Path
    git: Git
    settings: Settings


def propose(call: Call, wish: Wish) -> Proposal:
    """Ask the model once, and once more where its blocks do not fit.

    Raises NightshiftError: ``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``, ``E_BUDGET``,
    ``E_PARSE_ERROR`` (no blocks), ``E_APPLY_FAILED`` (they do not fit the files).
    """
    with _desk(call) as desk, short_folder(Path(tempfile.gettempdir())) as sockets:
        settings = _with_model(desk.settings.for_agent(Patch.name), wish.model)
        task = (wish.task if wish.task is not None else settings.task or "").strip()
        if not task:
            raise config_error("--task: say what is to be done (--task TEXT, or - for stdin)")
        provider = Patch(settings)
        provider.check(call.env)
        check_bounds(settings, provider, call.env)
        names = (*provider.keys, *MODEL_VARIABLES, *NETWORK)
        env = {name: call.env[name] for name in names if call.env.get(name)}
        notes: list[str] = []
        socket = sockets / "gateway"
        with (
            open_access(settings, provider, env, Egress(), socket, _noted(notes)) as access,
            access.bead(
                "patch", settings.models.implement, settings.max_budget_usd, settings.max_tokens
            ) as way,
        ):
            asked = _Asked(replace(desk, settings=settings), call, wish, task, way)
            found = asked.proposal()
        return replace(found, notes=(*dict.fromkeys(notes),))


@contextlib.contextmanager
def _desk(call: Call) -> Iterator[_Desk]:
    top = top_of(call.folder)
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = git_verbs.pristine(Path(home), search_path(call.env, top))
        file, _ = config_file(call, top, git)
        yield _Desk(top, git, load_settings(call.env, file, call.overrides))


def _with_model(settings: Settings, model: str | None) -> Settings:
    """One bead, one model: that of Implement, unless another one is named."""
    name = model or settings.models.implement
    models = Models(analyze=name, implement=name, verify=name, mr=name)
    return settings.model_copy(update={"models": models})


def _noted(notes: list[str]) -> Emit:
    def note(event: Event) -> None:
        if isinstance(event, Note):
            notes.append(event.text)

    return note


@dataclass(frozen=True)
class _Asked:
    """One question by hand, and what comes of it."""

    desk: _Desk
    call: Call
    wish: Wish
    task: str
    way: BeadAccess

    def proposal(self) -> Proposal:
        model = self.desk.settings.models.implement
        chat = Chat(self.way.env[BASE_URL], self.way.env[KEY], model)
        selected = tuple(_selected(self.desk.top, self.call.folder, self.wish.files))
        try:
            blocks, edits, reason = answered(
                chat,
                lambda tokens: self._messages(selected, tokens),
                self.wish.tokens,
                [None],
                self._used,
                lambda event: None,
            )
        except (Malformed, NotApplicable) as error:
            raise told(error) from None
        except TooSmall as error:
            raise config_error(f"{error}: name smaller files, or raise --context") from None
        except EndpointError as error:
            raise self._ended(error) from None
        return Proposal(blocks, edits, model, self.way.usage() or Usage(None, 0), reason, ())

    def _messages(self, selected: tuple[str, ...], tokens: int) -> list[Message]:
        settings, read = self.desk.settings, tree.reader(self.desk.top)
        files = listed(self.desk.git, self.desk.top, settings.paths, settings.exclude_paths)
        shown = chosen(files, Wanted(self.task, selected), read, tokens)
        task = TASK.format(task=self.task)
        prompt = INJECTION_MITIGATION_PREAMBLE + SEPARATOR + task
        return [
            {"role": "system", "content": system_text("implement")},
            {"role": "user", "content": user_text(prompt, shown)},
        ]

    def _used(self, text: str) -> tuple[tuple[Block, ...], tuple[Edit, ...], str]:
        blocks = parse(text)
        if not blocks and (reason := no_change(text)):
            return (), (), reason
        if not blocks:
            raise Malformed(NO_BLOCKS)
        outside = [block for block in blocks if not within(block.path, self.desk.settings)]
        if outside:
            raise NotApplicable(f"{block}: outside the settings' paths" for block in outside)
        return blocks, planned(blocks, tree.reader(self.desk.top)), ""

    def _ended(self, error: EndpointError) -> NightshiftError:
        if self.way.exhausted():
            return NightshiftError(Code.BUDGET, "the request does not fit into the budget")
        if error.status == 200:
            return NightshiftError(Code.PARSE_ERROR, str(error))
        return NightshiftError(Code.PROVIDER_UNAVAILABLE, self.way.unusable() or str(error))


def _selected(top: Path, folder: Path, files: Iterable[str]) -> Iterator[str]:
    """Paths from the top, of files that were named from the folder of the call."""
    for name in files:
        place = Path(os.path.normpath(folder.resolve() / name))
        if not place.is_relative_to(top):
            raise config_error(f"{name}: outside the checkout {top}")
        path = str(place.relative_to(top))
        if is_secret(path):
            raise config_error(f"{name}: its name says that it holds secrets; no model is shown it")
        if not place.is_file():
            raise config_error(f"{name}: no such file; a new one is named in the task")
        yield path
