"""The publish stage: turns a bundle into one branch, one commit and one merge request."""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.resources import (
    MergeRequest,
    NewMergeRequest,
    build_earlier_publication,
)
from gitlab_nightshift.policy.write_gate import describe_approvals
from gitlab_nightshift.records.events import GateRequired, Note
from gitlab_nightshift.records.notary_records import NotaryRecord, find_refusal
from gitlab_nightshift.records.products import Bundle, Outcome, Proposal, Publication
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.repository.private_repository import (
    Relation,
    Repository,
    commit_tree,
    read_diff_text,
)
from gitlab_nightshift.repository.remote import fetch
from gitlab_nightshift.stages.publish import merge_request as texts
from gitlab_nightshift.stages.publish.branches import (
    build_slug,
    push_commit,
    push_fast_forward,
    transfer_with_retries,
)
from gitlab_nightshift.stages.publish.bundle_check import (
    examine,
    find_relation,
    judge_bundle,
    read_bundle_files,
    rebuild_repository,
)
from gitlab_nightshift.stages.publish.description import render_description
from gitlab_nightshift.stages.publish.escaping import clean
from gitlab_nightshift.stages.publish.publish_context import (
    PublishContext,
    build_git_server,
    choose_author,
    find_commit_date,
)
from gitlab_nightshift.stages.publish.reviewers import MergeRequestFacts, choose_reviewers
from gitlab_nightshift.stages.publish.thread_reply import MOST_LINES, render_suggestion
from gitlab_nightshift.text.gitlab_refusals import AS_DEVELOPER


def publish(bundle_folder: Path, context: PublishContext) -> Publication:
    """Check a bundle and open its merge request. Idempotent.

    A bundle without a verified change is only reported. Raises NightshiftError: ``E_CONFIG``,
    ``E_PARSE_ERROR`` and ``E_POLICY_DENY`` before anything is written, ``E_PUBLISH`` if the bundle
    was edited or GitLab refuses; the bundle stays unchanged.
    """
    texts.check_templates(context.session.settings)
    date = find_commit_date(context.session.job, bundle_folder / "bundle.json")
    context = dataclasses.replace(context, date=date)
    files = read_bundle_files(bundle_folder)
    rebuilt = examine(files, context)
    bundle = rebuilt.bundle
    if bundle.outcome is not Outcome.MR_READY:
        redact = context.session.redact
        reason = clean_record(bundle.reason, redact)
        error_code = clean_record(bundle.error_code, redact)
        return Publication(bundle.run_id, bundle.outcome, reason, error_code)
    if isinstance(files.patch, NightshiftError):
        raise files.patch
    proposal = judge_bundle(rebuilt, files.patch, context)
    if context.notary:
        _refuse_unproven(context.notary, bundle, rebuilt.tree, context)
    with tempfile.TemporaryDirectory(prefix="publish-", dir=context.session.private) as folder:
        repository = rebuild_repository(rebuilt, context, Path(folder))
        return _publish_change(bundle, proposal, files.patch, repository, context)


def _publish_change(
    bundle: Bundle,
    proposal: Proposal,
    patch: bytes,
    repository: Repository,
    context: PublishContext,
) -> Publication:
    with _explain_failure(context):
        _check_token(context)
        if context.request and context.request.branch:
            return _add_follow_up(bundle, proposal, repository, context, context.request)
        if existing := context.project.merge_requests.find_by_run(bundle.run_id):
            return build_earlier_publication(bundle.run_id, existing, proposal.category)
        if why := _find_skip_reason(patch, repository, context):
            return Publication(bundle.run_id, Outcome.SKIPPED, why)
        if (gated := describe_approvals(proposal.gates)) and not context.approved_by:
            return _request_approval(bundle, gated, context)
        mr_texts = write_texts(bundle, proposal, context)
        commit = _create_commit(proposal, mr_texts.message, repository, context)
        pushed = push_commit(repository, commit, mr_texts.slug, context)
        if existing := pushed.merge_request:
            return build_earlier_publication(bundle.run_id, existing, proposal.category)
    # From here on a retry finds the branch by its commit, and opens only the merge request.
    context.session.emit(Note(f"Branch {pushed.branch} is pushed ({commit[:12]})."))
    prefix = f"branch {pushed.branch} has been pushed, but the merge request is not open yet: "
    with _explain_failure(context, prefix):
        opened, warnings = _open_merge_request(
            bundle, proposal, mr_texts, pushed.branch, commit, context
        )
    return _build_publication(bundle, opened, commit, (*pushed.warnings, *warnings), context)


def _add_follow_up(
    bundle: Bundle,
    proposal: Proposal,
    repository: Repository,
    context: PublishContext,
    request: TaskRequest,
) -> Publication:
    """Publish the change in an open merge request: as another commit, or as a suggestion."""
    if (gated := describe_approvals(proposal.gates)) and not context.approved_by:
        return _request_approval(bundle, gated, context)
    if request.suggest:
        tree = proposal.change.tree_id
        return suggest_change(repository, tree, bundle.run_id, request, context)
    message = write_texts(bundle, proposal, context).message
    commit = _create_commit(proposal, message, repository, context)
    return add_commit(repository, commit, bundle.run_id, request, context)


# --- steps ------------------------------------------------------------------------------------


def _refuse_unproven(
    record: NotaryRecord, bundle: Bundle, tree: str, context: PublishContext
) -> None:
    """Raise ``E_TEST_FAILED`` if the notary saw a command fail on this change, ``E_INCOMPLETE`` if
    it saw nothing."""
    refusal = find_refusal(record, run_id=bundle.run_id, base_sha=bundle.base_sha, tree_id=tree)
    if refusal is None:
        return
    text = f"not published: {refusal.why}"
    if refusal.code is Code.INCOMPLETE:
        steps = f"{context.notary_command}, then {context.resume_hint}"
        text = f"{text}. The bundle is kept. Go on with: {steps}"
    raise NightshiftError(refusal.code, context.session.redact(text))


def _check_token(context: PublishContext) -> None:
    """Raise ``E_PUBLISH`` for a token without the needed rights, before anything is pushed."""
    try:
        context.project.check_access()
    except NightshiftError as error:
        raise NightshiftError(Code.PUBLISH, error.message) from None


def _find_skip_reason(patch: bytes, repository: Repository, context: PublishContext) -> str:
    """Why the change cannot be published, or need not be, since the target branch has moved; "" if
    it can."""
    head = context.project.find_branch_head(context.target)
    if head is None:
        raise NightshiftError(Code.PUBLISH, f"the target branch {context.target} does not exist")
    if head == context.base:
        return ""
    if why := _describe_lost_base(context):
        return why
    server = build_git_server(context.session)
    fetched = transfer_with_retries(lambda: fetch(repository, server, context.target), context)
    if not fetched.ok:
        text = f"the target branch {context.target} could not be fetched: {fetched.message}"
        raise NightshiftError(Code.PUBLISH, text)
    moved = f"{context.target} has moved to {fetched.commit[:12]} since the night began"
    reasons = {
        Relation.CONTAINED: f"{moved}, and the change is already there",
        Relation.CONFLICT: f"{moved}, and the change conflicts with it",
        Relation.APPLIES: "",
    }
    return reasons[find_relation(fetched.commit, patch, repository, context)]


def _describe_lost_base(context: PublishContext) -> str:
    """Why nothing can be published: the base is not in the target branch, so the new branch would
    have more than one commit; "" if it is."""
    contains_base = context.project.has_commit(context.target, context.base)
    if contains_base is None:
        raise NightshiftError(
            Code.PUBLISH, f"GitLab does not have the base commit {context.base[:12]}: push it first"
        )
    if contains_base:
        return ""
    return f"{context.base[:12]} is not part of {context.target} (any more)"


def write_texts(
    bundle: Bundle, proposal: Proposal, context: PublishContext
) -> texts.MergeRequestTexts:
    """Title, description, slug, commit message and labels.

    Redacted twice: agents' texts before escaping, which would change a secret's characters, and the
    complete texts after it.
    """
    settings, redact = context.session.settings, context.session.redact
    marker = texts.build_marker(bundle, proposal)
    cleaned = clean_record(dataclasses.replace(bundle, proposal=None, beads=()), redact)
    plain: Proposal = clean_record(proposal, redact)
    labels = texts.list_labels(proposal, settings)
    message = texts.build_commit_message(cleaned, plain, settings, context.source.messages)
    return texts.MergeRequestTexts(
        title=redact(texts.format_title(cleaned, plain, settings)),
        body=redact(
            render_description(
                cleaned,
                plain,
                context.session.job,
                marker,
                clean_record(context.notary, redact),
                context.approved_by,
                context.request,
            )
        ),
        slug=build_slug(redact(texts.build_branch_slug(cleaned, plain, settings))),
        message=redact(message),
        labels=tuple(dataclasses.replace(each, name=redact(each.name)) for each in labels),
    )


def clean_record(value: Any, redact: Callable[[str], str]) -> Any:
    """A record with every string in it cleaned and redacted."""
    return map_texts(value, lambda text: redact(clean(text)))


def _create_commit(
    proposal: Proposal, message: str, repository: Repository, context: PublishContext
) -> str:
    """Create the commit. The same bundle always gives the same id."""
    author = choose_author(context.session, context.project, context.source.identity)
    return commit_tree(
        repository,
        proposal.change.tree_id,
        parent=context.base,
        message=message.encode(),
        author=author,
        committer=author,
        # git's internal format: seconds and zone (git-commit(1), DATE FORMATS).
        date=f"{context.date.timestamp():.0f} +0000",
    )


def _open_merge_request(
    bundle: Bundle,
    proposal: Proposal,
    mr_texts: texts.MergeRequestTexts,
    branch: str,
    commit: str,
    context: PublishContext,
) -> tuple[MergeRequest, tuple[str, ...]]:
    """The merge request, and the warnings about its labels and reviewers."""
    label_warnings = context.project.ensure_labels(mr_texts.labels)
    author = context.project.check_access().user_id
    facts = MergeRequestFacts(proposal.change.files, context.target, author, bundle.run_id)
    settings, people = context.session.settings, context.project.people
    ids, reviewer_warnings = choose_reviewers(settings, people, facts)
    new = NewMergeRequest(
        title=mr_texts.title,
        body=mr_texts.body,
        source_branch=branch,
        target_branch=context.target,
        labels=tuple(label.name for label in mr_texts.labels),
        reviewer_ids=ids,
    )
    opened = _create_merge_request(new, commit, context)
    if left_out := len(set(ids) - set(opened.reviewer_ids)):
        reviewer_warnings += (
            f"GitLab set {len(ids) - left_out} of {len(ids)} reviewers: several need a paid tier, "
            "and each must be a member of the project",
        )
    return opened, (*label_warnings, *reviewer_warnings)


def _create_merge_request(
    new: NewMergeRequest, commit: str, context: PublishContext
) -> MergeRequest:
    try:
        return context.project.merge_requests.create(new, commit)
    except ApiError as error:
        # Several reviewers need a paid tier: open it with one rather than not at all.
        if len(new.reviewer_ids) < 2 or error.status not in (400, 403, 422):
            raise
        with_one = dataclasses.replace(new, reviewer_ids=new.reviewer_ids[:1])
        return context.project.merge_requests.create(with_one, commit)


# --- results ----------------------------------------------------------------------------------


@contextmanager
def _explain_failure(context: PublishContext, prefix: str = "") -> Iterator[None]:
    """Add to the message of a failure in the block what was already done (``prefix``), a remedy,
    and, if another try can succeed, how to resume."""
    try:
        yield
    except NightshiftError as error:
        remedy = error.remedy if isinstance(error, ApiError) else None
        if isinstance(error, ApiError) and error.status in (401, 403):
            remedy = remedy or AS_DEVELOPER
        help_text = f" ({remedy.text})" if remedy else ""
        resume = f" Go on with: {context.resume_hint}" if remedy is None or remedy.retry else ""
        text = f"{prefix}{error.message.rstrip('.')}{help_text}.{resume}"
        raise NightshiftError(error.code, context.session.redact(text)) from None


def _request_approval(bundle: Bundle, gated: str, context: PublishContext) -> Publication:
    """Ask for an approval of the ``gated`` files; the bundle is kept until then."""
    gated = context.session.redact(gated)
    context.session.emit(GateRequired("write", gated))
    how = "start the manual job nightshift:approve of this pipeline"
    reason = f"not published without approval: {gated}. To approve it, {how}"
    return Publication(
        bundle.run_id, Outcome.APPROVAL_REQUIRED, reason, Code.APPROVAL_REQUIRED.value
    )


def _build_publication(
    bundle: Bundle,
    opened: MergeRequest,
    commit: str,
    warnings: tuple[str, ...],
    context: PublishContext,
) -> Publication:
    redacted = tuple(context.session.redact(warning) for warning in warnings)
    for warning in redacted:
        context.session.emit(Note(warning, warning=True))
    return Publication(
        run_id=bundle.run_id,
        outcome=Outcome.MR_CREATED,
        mr_url=opened.web_url,
        mr_iid=opened.iid,
        branch=opened.source_branch,
        commit_sha=commit,
        title=opened.title,
        warnings=redacted,
    )


# --- an open merge request ----------------------------------------------------------------------


def add_commit(
    repository: Repository, commit: str, run_id: str, request: TaskRequest, context: PublishContext
) -> Publication:
    """Push a commit to the branch of the open merge request that it was made for; ``SKIPPED`` if
    people have pushed to it, closed it or taken it over since.

    Raises ``E_PUBLISH`` if GitLab refuses, or the merge request is gone.
    """
    found = context.project.merge_requests.find(request.place.iid)
    if found is None or found.source_branch != request.branch:
        raise NightshiftError(Code.PUBLISH, "the merge request is gone")
    head = context.project.find_branch_head(request.branch)
    if head == commit:  # an earlier try has pushed it: the same bundle gives the same id
        return _build_added_publication(found, commit, run_id)
    if found.state != "opened":
        why = f"merge request !{found.iid} is {found.state}"
        return Publication(run_id, Outcome.SKIPPED, why)
    if request.upkeep and (why := _find_takeover(request, context)):
        return Publication(run_id, Outcome.SKIPPED, why)
    if head != context.base or not push_fast_forward(repository, commit, request.branch, context):
        why = f"branch {request.branch} has moved since work began"
        return Publication(run_id, Outcome.SKIPPED, why)
    context.session.emit(Note(f"Branch {request.branch} has one more commit ({commit[:12]})."))
    return _build_added_publication(found, commit, run_id)


def suggest_change(
    repository: Repository, tree: str, run_id: str, request: TaskRequest, context: PublishContext
) -> Publication:
    """The publication of a change that is only suggested in the reply to the comment, not
    pushed."""
    found = context.project.merge_requests.find(request.place.iid)
    if found is None or found.state != "opened" or found.sha != context.base:
        why = "the merge request has moved or was closed since work began"
        return Publication(run_id, Outcome.SKIPPED, why)
    patch = read_diff_text(repository, context.base, tree, 3)
    wide_patch = read_diff_text(repository, context.base, tree, MOST_LINES)
    return Publication(
        run_id=run_id,
        outcome=Outcome.MR_READY,
        reason=f"suggested in merge request !{found.iid}",
        mr_url=found.web_url,
        mr_iid=found.iid,
        title=found.title,
        suggestion=context.session.redact(render_suggestion(patch, wide_patch, request.spot)),
    )


def _find_takeover(request: TaskRequest, context: PublishContext) -> str:
    """Why the merge request is now left to people; "" if it is not."""
    reviews, iid = context.project.reviews, request.place.iid
    if reviews.is_approved(iid):
        return f"merge request !{iid} has been approved in the meantime"
    return f"merge request !{iid} is set to merge" if reviews.read_state(iid).auto_merge else ""


def _build_added_publication(found: MergeRequest, commit: str, run_id: str) -> Publication:
    return Publication(
        run_id=run_id,
        outcome=Outcome.MR_CREATED,
        reason=f"one commit was added to merge request !{found.iid}",
        mr_url=found.web_url,
        mr_iid=found.iid,
        branch=found.source_branch,
        commit_sha=commit,
        title=found.title,
    )
