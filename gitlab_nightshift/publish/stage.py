"""The publish stage: a bundle goes in, one branch, one commit and one merge request come out."""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.events import GateRequired, Note
from gitlab_nightshift.gitlab import ApiError, Label, MergeRequest, NewMergeRequest
from gitlab_nightshift.host.pipeline import pipeline_files
from gitlab_nightshift.host.remote import fetch
from gitlab_nightshift.host.repository import (
    Relation,
    Repository,
    commit_tree,
    private_repository,
    relation,
)
from gitlab_nightshift.policy import to_approve
from gitlab_nightshift.publish import merge_request as texts
from gitlab_nightshift.publish.branch import slug
from gitlab_nightshift.publish.bundle import (
    check_bundle,
    judge,
    read_bundle,
    rebuild,
    refuse_secrets,
)
from gitlab_nightshift.publish.desk import Desk, author
from gitlab_nightshift.publish.follow_up import add_commit
from gitlab_nightshift.publish.push import push_commit, transferred
from gitlab_nightshift.publish.text import clean
from gitlab_nightshift.records import Bundle, Outcome, Proposal, Published, Request, map_texts


@dataclass(frozen=True)
class Texts:
    """All that goes to GitLab but the files; cleaned and redacted."""

    title: str
    body: str
    slug: str
    message: str
    labels: tuple[Label, ...]


def publish(bundle_folder: Path, desk: Desk) -> Published:
    """Check a bundle and open its merge request; publishing it again changes nothing.

    A bundle without a verified change is only reported. Raises NightshiftError: ``E_CONFIG``,
    ``E_PARSE_ERROR`` and ``E_POLICY_DENY`` before anything is written, ``E_PUBLISH`` where the
    bundle was edited or GitLab refuses; the bundle stays as it is.
    """
    texts.check_templates(desk.settings)
    bundle, patch = read_bundle(bundle_folder)
    if bundle.outcome is not Outcome.MR_READY:
        told = (tidied(text, desk.redact) for text in (bundle.reason, bundle.error_code))
        return Published(bundle.run_id, bundle.outcome, *told)
    proposal = check_bundle(
        bundle, desk.settings, base=desk.base, target=desk.target, now=datetime.now(UTC)
    )
    with tempfile.TemporaryDirectory(prefix="publish-", dir=desk.private) as folder:
        source = desk.source
        repository = private_repository(
            desk.git, Path(folder) / "repository.git", source.place, source.config
        )
        files = rebuild(repository, proposal, desk.base, patch)
        ci_config = desk.job.ci_config_path
        ci_files = pipeline_files(repository, desk.base, ci_config)
        gates = judge(files, desk.settings, desk.recent_files, ci_config, ci_files)
        refuse_secrets(patch, desk.redact.values)
        proposal = dataclasses.replace(proposal, gates=gates)
        return _publish_change(bundle, proposal, patch, repository, desk)


def _publish_change(
    bundle: Bundle, proposal: Proposal, patch: bytes, repository: Repository, desk: Desk
) -> Published:
    with _can_go_on(desk):
        _check_token(desk)
        if desk.request and desk.request.branch:
            return _followed_up(bundle, proposal, repository, desk, desk.request)
        if found := desk.project.merge_request_of_run(bundle.run_id):
            return _already(bundle, found)
        if why := _overtaken(patch, repository, desk):
            return Published(bundle.run_id, Outcome.SKIPPED, why)
        if (needed := to_approve(proposal.gates)) and not desk.approved_by:
            return _waiting(bundle, needed, desk)
        written = write_texts(bundle, proposal, desk)
        commit = _commit(bundle, proposal, written.message, repository, desk)
        pushed = push_commit(repository, commit, written.slug, desk)
        if pushed.merge_request:
            return _already(bundle, pushed.merge_request)
    desk.emit(Note(f"Branch {pushed.branch} is pushed ({commit[:12]})."))
    with _can_go_on(desk, f"branch {pushed.branch} is pushed, the merge request is not open yet: "):
        opened, warnings = _open(written, pushed.branch, commit, desk)
    return _published(bundle, opened, commit, (*pushed.warnings, *warnings), desk)


def _followed_up(
    bundle: Bundle, proposal: Proposal, repository: Repository, desk: Desk, request: Request
) -> Published:
    """The change as one more commit on the branch that it was made on."""
    if (needed := to_approve(proposal.gates)) and not desk.approved_by:
        return _waiting(bundle, needed, desk)
    message = write_texts(bundle, proposal, desk).message
    commit = _commit(bundle, proposal, message, repository, desk)
    return add_commit(repository, commit, bundle.run_id, request, desk)


# --- steps ------------------------------------------------------------------------------------


def _check_token(desk: Desk) -> None:
    """A token without rights is told before anything is pushed."""
    try:
        desk.project.access()
    except NightshiftError as error:
        raise NightshiftError(Code.PUBLISH, error.message) from None


def _overtaken(patch: bytes, repository: Repository, desk: Desk) -> str:
    """Why the target branch, moved since the base, leaves nothing to publish; "" where it does."""
    head = desk.project.branch_head(desk.target)
    if head is None:
        raise NightshiftError(Code.PUBLISH, f"the target branch {desk.target} does not exist")
    if head == desk.base:
        return ""
    if why := _rewritten(desk):
        return why
    server = desk.server()
    fetched = transferred(lambda: fetch(repository, server, desk.target), desk)
    if not fetched.ok:
        text = f"the target branch {desk.target} could not be fetched: {fetched.message}"
        raise NightshiftError(Code.PUBLISH, text)
    moved = f"{desk.target} has moved to {fetched.commit[:12]} since the night began"
    return {
        Relation.CONTAINED: f"{moved}, and the change is already there",
        Relation.CONFLICT: f"{moved}, and the change conflicts with it",
        Relation.APPLIES: "",
    }[relation(repository, fetched.commit, patch)]


def _rewritten(desk: Desk) -> str:
    """A branch of one commit needs a base that is part of the target branch."""
    part = desk.project.contains(desk.target, desk.base)
    if part is None:
        raise NightshiftError(
            Code.PUBLISH, f"GitLab does not have the base commit {desk.base[:12]}: push it first"
        )
    return "" if part else f"{desk.base[:12]} is no part of {desk.target} (any more)"


def write_texts(bundle: Bundle, proposal: Proposal, desk: Desk) -> Texts:
    """Title, description, slug, commit message and labels.

    Redacted twice: the agent's words before they are escaped, where a secret still has its own
    characters, and the whole after.
    """
    redact = desk.redact
    mark = texts.marker(bundle, proposal)
    told = tidied(dataclasses.replace(bundle, proposal=None, beads=()), redact)
    plain: Proposal = tidied(proposal, redact)
    labels = texts.labels(proposal, desk.settings)
    message = texts.message(told, plain, desk.settings, desk.source.messages)
    return Texts(
        title=redact(texts.title(told, plain, desk.settings)),
        body=redact(texts.body(told, plain, desk.job, mark, desk.approved_by, desk.request)),
        slug=slug(redact(texts.branch_slug(told, plain, desk.settings))),
        message=redact(message),
        labels=tuple(dataclasses.replace(each, name=redact(each.name)) for each in labels),
    )


def tidied(value: Any, redact: Callable[[str], str]) -> Any:
    """A record with every string in it cleaned and redacted."""
    return map_texts(value, lambda text: redact(clean(text)))


def _commit(
    bundle: Bundle, proposal: Proposal, message: str, repository: Repository, desk: Desk
) -> str:
    """The commit; made again from the same bundle it has the same id."""
    person = author(desk)
    return commit_tree(
        repository,
        proposal.change.tree_id,
        parent=desk.base,
        message=message.encode(),
        author=person,
        committer=person,
        date=f"{datetime.fromisoformat(bundle.created_at).timestamp():.0f} +0000",
    )


def _open(
    written: Texts, branch: str, commit: str, desk: Desk
) -> tuple[MergeRequest, tuple[str, ...]]:
    warnings = desk.project.ensure_labels(written.labels)
    names = dict.fromkeys((desk.settings.reviewer or "", *desk.settings.reviewers))
    ids, unknown = desk.project.user_ids(name for name in names if name)
    new = NewMergeRequest(
        title=written.title,
        body=written.body,
        source_branch=branch,
        target_branch=desk.target,
        labels=tuple(label.name for label in written.labels),
        reviewer_ids=ids,
    )
    opened = _created(new, commit, desk)
    if left_out := len(set(ids) - set(opened.reviewer_ids)):
        unknown += (
            f"GitLab set {len(ids) - left_out} of {len(ids)} reviewers: several need a paid tier, "
            "and each must be a member of the project",
        )
    return opened, (*warnings, *unknown)


def _created(new: NewMergeRequest, commit: str, desk: Desk) -> MergeRequest:
    try:
        return desk.project.create_merge_request(new, commit)
    except ApiError as error:
        if len(new.reviewer_ids) < 2 or error.status not in (400, 403, 422):
            raise
        alone = dataclasses.replace(new, reviewer_ids=new.reviewer_ids[:1])
        return desk.project.create_merge_request(alone, commit)


# --- results ----------------------------------------------------------------------------------


@contextmanager
def _can_go_on(desk: Desk, before: str = "") -> Iterator[None]:
    """A failure says what stands already, which right is missing, and how to go on."""
    try:
        yield
    except NightshiftError as error:
        right = ""
        if isinstance(error, ApiError) and error.status in (401, 403):
            right = " (the token needs the role Developer and the scopes api and write_repository)"
        text = f"{before}{error.message.rstrip('.')}{right}. Go on with: {desk.resume}"
        raise NightshiftError(error.code, desk.redact(text)) from None


def _already(bundle: Bundle, found: MergeRequest) -> Published:
    """What an earlier publish of this run has left; nothing is opened a second time."""
    closed = found.state == "closed"
    state = "was closed meanwhile" if closed else f"is {found.state}"
    return Published(
        run_id=bundle.run_id,
        outcome=Outcome.SKIPPED if closed else Outcome.MR_CREATED,
        reason=f"published before: merge request !{found.iid} {state}",
        mr_url=found.web_url,
        mr_iid=found.iid,
        branch=found.source_branch,
        commit_sha=found.sha,
        title=found.title,
    )


def _waiting(bundle: Bundle, needed: str, desk: Desk) -> Published:
    """The bundle is kept until somebody approves it."""
    needed = desk.redact(needed)
    desk.emit(GateRequired("write", needed))
    how = "start the manual job nightshift:approve of this pipeline"
    reason = f"not published without an approval: {needed}. To approve it, {how}"
    return Published(bundle.run_id, Outcome.APPROVAL_REQUIRED, reason, Code.APPROVAL_REQUIRED.value)


def _published(
    bundle: Bundle, opened: MergeRequest, commit: str, warnings: tuple[str, ...], desk: Desk
) -> Published:
    told = tuple(desk.redact(warning) for warning in warnings)
    for warning in told:
        desk.emit(Note(warning, warning=True))
    return Published(
        run_id=bundle.run_id,
        outcome=Outcome.MR_CREATED,
        mr_url=opened.web_url,
        mr_iid=opened.iid,
        branch=opened.source_branch,
        commit_sha=commit,
        title=opened.title,
        warnings=told,
    )
