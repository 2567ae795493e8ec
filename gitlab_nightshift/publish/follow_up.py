"""One more commit on the branch of a merge request of this program: fast forward, or not at all."""

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.events import Note
from gitlab_nightshift.gitlab import MergeRequest
from gitlab_nightshift.host.repository import Repository
from gitlab_nightshift.publish.desk import Desk
from gitlab_nightshift.publish.push import push_on
from gitlab_nightshift.records import Outcome, Published, Request


def add_commit(
    repository: Repository, commit: str, run_id: str, request: Request, desk: Desk
) -> Published:
    """Push a commit that was made on the branch's head. What people have pushed since stays: then
    it is ``SKIPPED``. Raises ``E_PUBLISH`` where GitLab refuses, or the merge request is closed."""
    found = desk.project.merge_request(request.place.iid)
    if found is None or found.source_branch != request.branch:
        raise NightshiftError(Code.PUBLISH, "the merge request is gone")
    head = desk.project.branch_head(request.branch)
    if head == commit:
        return _added(found, commit, run_id)
    if found.state != "opened":
        return _skipped(run_id, f"merge request !{found.iid} is {found.state}")
    if head != desk.base or not push_on(repository, commit, request.branch, desk):
        return _skipped(run_id, f"branch {request.branch} has moved since the work began")
    desk.emit(Note(f"Branch {request.branch} has one commit more ({commit[:12]})."))
    return _added(found, commit, run_id)


def _skipped(run_id: str, why: str) -> Published:
    return Published(run_id, Outcome.SKIPPED, why)


def _added(found: MergeRequest, commit: str, run_id: str) -> Published:
    return Published(
        run_id=run_id,
        outcome=Outcome.MR_CREATED,
        reason=f"one commit was added to merge request !{found.iid}",
        mr_url=found.web_url,
        mr_iid=found.iid,
        branch=found.source_branch,
        commit_sha=commit,
        title=found.title,
    )
