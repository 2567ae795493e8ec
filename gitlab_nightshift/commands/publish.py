"""``nightshift publish``: opens the merge request for an earlier job's bundle."""

import argparse
import contextlib
import os

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from gitlab_nightshift.errors import NightshiftError
    from gitlab_nightshift.run_folder import Invocation
    from gitlab_nightshift.session import Session

EXAMPLES = """\
examples:
  nightshift publish                         the bundle of nightshift/bundle
  nightshift publish nightshift/bundle       resume after a failed publish; costs no model tokens
  nightshift publish --from-job nightshift:work --notary-job nightshift:notary"""


def register(commands: "options.Commands") -> None:
    parser = options.add_command(
        commands,
        "publish",
        "open the merge request for a bundle",
        run,
        examples=EXAMPLES,
        checks_import_path=True,
    )
    options.add_settings_options(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("bundle", nargs="?", metavar="BUNDLE", help="default: nightshift/bundle")
    source.add_argument(
        "--from-job", metavar="NAME", help="publish the bundle of another job in this pipeline"
    )
    parser.add_argument(
        "--notary-job",
        metavar="NAME",
        help="with --from-job: the job that ran the commands on the change independently",
    )
    parser.add_argument(
        "--approved", action="store_true", help="in a manual job: whoever started it approves"
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Publish a bundle; the exit status is that of the run."""
    from gitlab_nightshift.errors import NightshiftError, to_exit_status
    from gitlab_nightshift.records.notary_records import BundleOrigin
    from gitlab_nightshift.run import publishing
    from gitlab_nightshift.run.session_opening import open_run
    from gitlab_nightshift.sandbox.process_table import JOBS

    call = options.build_invocation(args, env)
    # An ExitStack, so that ``except`` catches only errors of opening the run: mistakes in settings.
    with contextlib.ExitStack() as stack:
        try:
            session = stack.enter_context(open_run(call))
        except NightshiftError as error:
            _notify_of_error(call, error)
            raise
        # Before the bundle is read: it comes from a job that agents ran in.
        options.drop_privileges(JOBS, env, session.checkout)
        try:
            origin = BundleOrigin(args.bundle, args.from_job, args.notary_job)
            published = publishing.publish_existing(session, origin, approved=args.approved)
        finally:  # even if there is no bundle
            _notify(session)
        return to_exit_status(published.error_code)


def _notify(session: "Session") -> None:
    from gitlab_nightshift.records.events import Note
    from gitlab_nightshift.run.process_inputs import build_notify_request
    from gitlab_nightshift.run.supervisor.notices import notify

    request = build_notify_request(session)
    for line in notify(request, session.results, session.env, dict(os.environ)):
        session.emit(Note(line, warning=True))


def _notify_of_error(call: "Invocation", error: "NightshiftError") -> None:
    """Notify people also of a failed plan: of the three jobs, only this one does."""
    from gitlab_nightshift.run.supervisor.notices import notify_of_error

    for line in notify_of_error(call, error, dict(os.environ)):
        options.write_note(f"warning: {line}")
