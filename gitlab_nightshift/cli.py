"""The front door: commands → stages.

The only place where an error becomes an exit status. ``env`` is the job's environment as data; this
process's own holds a few named variables of it (``sealed.py``).
"""

import argparse
import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift import sealed
from gitlab_nightshift.arguments import parser
from gitlab_nightshift.errors import (
    EXIT_STATUS,
    Code,
    Interrupted,
    NightshiftError,
    config_error,
    is_disk_full,
)

if TYPE_CHECKING:
    from gitlab_nightshift.desk.check import Asked, Judgement
    from gitlab_nightshift.events import Event
    from gitlab_nightshift.records import RunResult
    from gitlab_nightshift.session import Call

Env = Mapping[str, str]
Command = Callable[[argparse.Namespace, Env], int]


def main() -> int:
    """Check the command line, then run it with a sealed start, where there is one."""
    arguments = sys.argv[1:]
    parser().parse_args(arguments)
    if sys.platform != "linux":
        return run(arguments, os.environ)
    start = sealed.prepare_start(arguments, os.environ)
    for name in start.left_out:
        text = f"nightshift: {name} leads into the checkout, where agents write: not used"
        print(text, file=sys.stderr)
    sealed.become(start)


def run(arguments: Sequence[str], env: Env) -> int:
    """Run a command and return its exit status: the one place where errors become one."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    args = parser().parse_args(arguments)
    try:
        return _guarded(args, env)
    except NightshiftError as error:
        for line in error.lines:
            print(f"nightshift: {error.code}: {line}", file=sys.stderr)
        return error.exit_status
    except Interrupted as stop:
        print(f"nightshift: {stop.code}: stopped by a signal", file=sys.stderr)
        return EXIT_STATUS[stop.code]
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _full_disk() if isinstance(error, OSError) and is_disk_full(error) else _defect(env)


def _guarded(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift.host.signals import cancellable

    with cancellable():
        return COMMANDS[args.command](args, env)


def _full_disk() -> int:
    text = "no space left on a disk: free some (TMPDIR, or that of the checkout)"
    print(f"nightshift: {Code.CONFIG}: {text}", file=sys.stderr)
    return EXIT_STATUS[Code.CONFIG]


def _defect(env: Env) -> int:
    """A defect of this program: the traceback goes into a file, one line to the user."""
    folder = Path("nightshift/logs")
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    place = folder if folder.is_dir() and os.access(folder, os.W_OK) else None
    with tempfile.NamedTemporaryFile(
        "w", prefix="traceback-", suffix=".txt", dir=place, delete=False
    ) as file:
        file.write(_redacted(traceback.format_exc(), env))
    kind = type(sys.exception()).__name__
    text = (
        f"nightshift: {Code.INTERNAL}: a defect of nightshift ({kind}); please report {file.name}"
    )
    print(text, file=sys.stderr)
    return EXIT_STATUS[Code.INTERNAL]


def _redacted(text: str, env: Env) -> str:
    try:
        from gitlab_nightshift.redaction import Redactor
        from gitlab_nightshift.settings import read_secrets
    except Exception as error:  # an installation so broken that not even this can be imported
        return f"{type(error).__name__} while this traceback was redacted; it is left out\n"
    return Redactor(read_secrets(env).values)(text)


# --- commands -----------------------------------------------------------------------------------


def _plan(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.session import opened

    with opened(_call(args, env)) as session:
        made = stages.plan(session)
        prompts = stages.preview(session, made) if args.prompts else {}
    for bead, text in prompts.items():
        print(f"\n===== {bead} =====\n{text}")
    return 0


def _work(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift import publishing, stages
    from gitlab_nightshift.session import opened

    _linux_only()
    with opened(_call(args, env)) as session:
        made = stages.read_plan(session, args.plan)
        stages.started(session)
        return _status(publishing.ended(session, stages.work(session, made), None))


def _publish(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift import publishing
    from gitlab_nightshift.session import opened

    with opened(_call(args, env)) as session:
        done = publishing.publish_again(session, args.bundle, args.from_job, approved=args.approved)
        return _status(done)


def _run(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.session import opened

    _linux_only()
    with opened(_call(args, env)) as session:
        return _status(stages.run(session))


def _config_show(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift.show import settings_table

    print(settings_table(_call(args, env)))
    return 0


def _config_schema(_args: argparse.Namespace, _env: Env) -> int:
    import json

    from gitlab_nightshift.settings.load import schema

    print(json.dumps(schema(), indent=2))
    return 0


def _doctor(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift.by_hand.doctor import examine
    from gitlab_nightshift.by_hand.doctor_text import told

    if not args.boundary:
        raise config_error("doctor: so far only --boundary can be examined")
    _linux_only()
    seen = examine(_call(args, env))
    colour = _colour(env) or (env.get("GITLAB_CI") == "true" and not env.get("NO_COLOR"))
    print(told(seen, verbose=args.verbose, colour=colour))
    return seen.exit_status


def _check(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift.desk.check import Asked, as_json, as_text, check

    asked = Asked(
        folder=Path.cwd() / args.folder,
        env=env,
        commit=args.commit,
        base=args.base,
        staged=args.staged,
        category=args.category or "",
        selected=tuple(args.selected or ()),
        recent=args.recent,
    )
    judgement = _judged_by_running(asked) if args.run else check(asked)
    print(as_json(judgement) if args.json else as_text(judgement, _colour(env)))
    return EXIT_STATUS[Code.TEST_FAILED] if judgement.failed else 0


def _judged_by_running(asked: "Asked") -> "Judgement":
    from gitlab_nightshift.checking import check_and_run

    _linux_only()
    return check_and_run(asked, _progress)


def _progress(event: "Event") -> None:
    """What takes time, on stderr: stdout is the result's."""
    from gitlab_nightshift.events import StepEnded, StepStarted

    if isinstance(event, StepStarted):
        print(event.title, file=sys.stderr)
    elif isinstance(event, StepEnded):
        print(f"  {event.text}", file=sys.stderr)


def _demo(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift import stages
    from gitlab_nightshift.demo.night import OPENING, demo_night
    from gitlab_nightshift.demo.view import reader_view
    from gitlab_nightshift.session import Call, opened

    os.environ["no_proxy"] = "127.0.0.1"  # requests would ask a proxy for our own loopback
    with demo_night(Path(args.folder), env) as demo:
        print(OPENING)
        call = Call(demo.env, demo.checkout, None, {}, _colour(env))
        with opened(call) as session:
            status = _status(stages.run(session))
        print(reader_view(demo, _colour(env)))
    return status


def _by_hand(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift.by_hand.commands import run

    out, told = run(_call(args, env), args)
    sys.stderr.write(told)
    sys.stdout.write(out)
    return 0


def _delegate(args: argparse.Namespace, env: Env) -> int:
    import json

    from gitlab_nightshift import api

    if args.schema:
        print(json.dumps(api.schemas(), indent=2))
        return 0
    result = api.delegate_file(args.payload, sys.stdin.buffer, env, sys.stderr)
    print(json.dumps(api.as_json(result)))
    return api.exit_status(result)


def _chat(args: argparse.Namespace, env: Env) -> int:
    from gitlab_nightshift.desk.chat.configuration import (
        read_address,
        read_application,
        read_chat_settings,
    )

    if args.register:
        application = read_application(env)
        from gitlab_nightshift.desk.chat.server import register

        register(application)
        print("/coder is registered")
        return 0
    settings, address = read_chat_settings(env), read_address(args.listen)
    from gitlab_nightshift.desk.chat.server import serve

    serve(settings, address, lambda line: print(line, file=sys.stderr, flush=True))
    return 0


COMMANDS: dict[str, Command] = {
    "plan": _plan,
    "work": _work,
    "publish": _publish,
    "run": _run,
    "config show": _config_show,
    "config schema": _config_schema,
    "doctor": _doctor,
    "check": _check,
    "demo": _demo,
    "patch": _by_hand,
    "execute": _by_hand,
    "providers": _by_hand,
    "chat discord": _chat,
    "delegate": _delegate,
}


# --- the pieces they share ------------------------------------------------------------------------


def _call(args: argparse.Namespace, env: Env) -> "Call":
    from gitlab_nightshift.session import Call

    overrides = dict(_pair(text) for text in args.set or ())
    if getattr(args, "category", None):
        overrides["category"] = args.category
    if getattr(args, "dry_run", False):
        overrides["dry_run"] = "true"
    return Call(env, Path.cwd(), args.config, overrides, _colour(env))


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise config_error(f"--set {text}: KEY=VALUE is expected")
    return key.strip(), value


def _colour(env: Env) -> bool:
    return sys.stdout.isatty() and not env.get("NO_COLOR")


def _status(result: "RunResult") -> int:
    """The code may come from the bundle of a job that agents ran in, and need not exist."""
    known = {"": 0, **{code.value: status for code, status in EXIT_STATUS.items()}}
    return known.get(result.error_code, EXIT_STATUS[Code.PARSE_ERROR])


def _linux_only() -> None:
    if sys.platform != "linux":
        raise config_error("agents run on Linux only; here demo, config and check work")
