"""The front door: commands → stages.

The only reader of ``os.environ``, and the only place where an error becomes an exit status.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift import __version__
from gitlab_nightshift.errors import EXIT_STATUS, Code, Interrupted, NightshiftError, config_error

if TYPE_CHECKING:
    from gitlab_nightshift.records import RunResult
    from gitlab_nightshift.session import Call

Command = Callable[[argparse.Namespace], int]

DESCRIPTION = """\
One small, proven merge request a night, or none, with the reason.

A coding agent looks for the best small improvement of today's category, makes it, another one
checks it, and this program opens the merge request. The agent never has the GitLab token."""

EXAMPLES = """\
examples:
  nightshift demo                            see a whole night on this machine, no account needed
  nightshift config show                     every setting and where its value came from
  nightshift plan --prompts                  what a night would try, and the prompts it would send
  nightshift run --dry-run --category docs   everything but the merge request
  nightshift run                             a night, as the scheduled job does it
  nightshift doctor --boundary               what keeps an agent from secrets on this runner
  nightshift publish nightshift/bundle       go on after a failed publish; no token of a model spent

exit status: 0 also for a quiet night; 2 settings, 5 agent or key, 6 deadline, 11 changed checkout,
12 publish, 130 and 143 signals; all of them in docs/errors.md"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: the one place where errors become one."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    args = _parser().parse_args(argv)
    try:
        return _guarded(args)
    except NightshiftError as error:
        for line in error.message.splitlines():
            print(f"nightshift: {error.code}: {line}", file=sys.stderr)
        return error.exit_status
    except Interrupted as stop:
        print(f"nightshift: {stop.code}: stopped by a signal", file=sys.stderr)
        return EXIT_STATUS[stop.code]
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:
        return _defect()


def _guarded(args: argparse.Namespace) -> int:
    from gitlab_nightshift.host.signals import cancellable

    command: Command = args.command
    with cancellable():
        return command(args)


def _defect() -> int:
    """A defect of this program: the traceback goes into a file, one line to the user."""
    folder = Path("nightshift/logs")
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    place = folder if folder.is_dir() and os.access(folder, os.W_OK) else None
    with tempfile.NamedTemporaryFile(
        "w", prefix="traceback-", suffix=".txt", dir=place, delete=False
    ) as file:
        file.write(_redacted(traceback.format_exc()))
    kind = type(sys.exception()).__name__
    text = (
        f"nightshift: {Code.INTERNAL}: a defect of nightshift ({kind}); please report {file.name}"
    )
    print(text, file=sys.stderr)
    return EXIT_STATUS[Code.INTERNAL]


def _redacted(text: str) -> str:
    try:
        from gitlab_nightshift.redaction import Redactor
        from gitlab_nightshift.settings import read_secrets
    except Exception as error:  # an installation so broken that not even this can be imported
        return f"{type(error).__name__} while this traceback was redacted; it is left out\n"
    return Redactor(read_secrets(os.environ).values)(text)


# --- commands -----------------------------------------------------------------------------------


def _plan(args: argparse.Namespace) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.session import opened

    with opened(_call(args)) as session:
        made = stages.plan(session)
        prompts = stages.preview(session, made) if args.prompts else {}
    for bead, text in prompts.items():
        print(f"\n===== {bead} =====\n{text}")
    return 0


def _work(args: argparse.Namespace) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.session import opened

    _linux_only()
    with opened(_call(args)) as session:
        made = stages.read_plan(session, args.plan)
        stages.started(session)
        return _status(stages.ended(session, stages.work(session, made), None))


def _publish(args: argparse.Namespace) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.session import opened

    with opened(_call(args)) as session:
        return _status(stages.publish_again(session, args.bundle, args.from_job))


def _run(args: argparse.Namespace) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.session import opened

    _linux_only()
    with opened(_call(args)) as session:
        return _status(stages.run(session))


def _config_show(args: argparse.Namespace) -> int:
    from gitlab_nightshift.show import settings_table

    print(settings_table(_call(args)))
    return 0


def _config_schema(_args: argparse.Namespace) -> int:
    import json

    from gitlab_nightshift.settings.load import schema

    print(json.dumps(schema(), indent=2))
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from gitlab_nightshift.desk.doctor import examine_boundary

    if not args.boundary:
        raise config_error("doctor: so far only --boundary can be examined")
    _linux_only()
    diagnosis = examine_boundary(os.environ, Path.cwd())
    print("\n".join(diagnosis.lines))
    return 0 if diagnosis.good else EXIT_STATUS[Code.POLICY_DENY]


def _demo(args: argparse.Namespace) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.demo.night import OPENING, demo_night
    from gitlab_nightshift.demo.view import reader_view
    from gitlab_nightshift.session import Call, opened

    os.environ["no_proxy"] = "127.0.0.1"  # requests would ask a proxy for our own loopback
    with demo_night(Path(args.folder), os.environ) as demo:
        print(OPENING)
        call = Call(demo.env, demo.checkout, None, {}, _colour())
        with opened(call) as session:
            status = _status(stages.run(session))
        print(reader_view(demo, _colour()))
    return status


# --- the pieces they share ------------------------------------------------------------------------


def _call(args: argparse.Namespace) -> "Call":
    from gitlab_nightshift.session import Call

    overrides = dict(_pair(text) for text in args.set or ())
    if getattr(args, "category", None):
        overrides["category"] = args.category
    if getattr(args, "dry_run", False):
        overrides["dry_run"] = "true"
    return Call(os.environ, Path.cwd(), args.config, overrides, _colour())


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise config_error(f"--set {text}: KEY=VALUE is expected")
    return key.strip(), value


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _status(result: "RunResult") -> int:
    if result.error_code:
        return EXIT_STATUS[Code(result.error_code)]
    return 0


def _linux_only() -> None:
    if sys.platform != "linux":
        raise config_error("agents run on Linux only; here demo and config work")


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="nightshift", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"nightshift {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        made.set_defaults(command=command)
        return made

    plan = _settable(add("plan", _plan, "what a night would try; writes nightshift/plan.json"))
    plan.add_argument("--prompts", action="store_true", help="show the prompts as they are sent")
    work = _settable(add("work", _work, "run the agents; writes nightshift/bundle"))
    work.add_argument("--plan", metavar="FILE", help="default: nightshift/plan.json")
    publish = _settable(add("publish", _publish, "open the merge request of a bundle"))
    source = publish.add_mutually_exclusive_group()
    source.add_argument("bundle", nargs="?", metavar="BUNDLE", help="default: nightshift/bundle")
    source.add_argument(
        "--from-job", metavar="NAME", help="the bundle of another job of this pipeline"
    )
    run = _settable(add("run", _run, "plan, work and publish in one job"))
    run.add_argument("--dry-run", action="store_true", help="stop before publish")
    for each in (plan, run):
        each.add_argument("--category", metavar="NAME", help="instead of today's")
    config = commands.add_parser("config", help="show the settings, or their schema")
    shown = config.add_subparsers(metavar="show|schema", required=True)
    show = _settable(shown.add_parser("show", help="each value with where it came from"))
    show.set_defaults(command=_config_show)
    schema = shown.add_parser("schema", help="the JSON Schema of nightshift.yaml, for editors")
    schema.set_defaults(command=_config_schema)
    doctor = add("doctor", _doctor, "what is safe on this runner: tried, not guessed")
    doctor.add_argument(
        "--boundary", action="store_true", help="what keeps an agent from the job's secrets here"
    )
    demo = add("demo", _demo, "a whole night on this machine: no account, no model")
    demo.add_argument("folder", nargs="?", default=".", help="where nightshift/ is left")
    return parser


def _settable(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--config", metavar="FILE", help="default: nightshift.yaml")
    parser.add_argument(
        "--set", action="append", metavar="KEY=VALUE", help="a setting, as models.verify=NAME"
    )
    return parser
