"""``DoctorRow``, and the rows of ``nightshift doctor`` about this machine: the checkout, the
pipeline file, the agent, its model."""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.commands.provider_table import list_providers
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway.gateway_config import build_gateway_config
from gitlab_nightshift.gateway.model_list import ProbedModel, ask_for_model
from gitlab_nightshift.onboarding.project_files import is_external
from gitlab_nightshift.records.usage import SpendingLimit
from gitlab_nightshift.repository.git import read_committed_file
from gitlab_nightshift.run.process_inputs import find_verify_commands
from gitlab_nightshift.run.publishing import read_checkout_facts
from gitlab_nightshift.sealed_start import CA_FILES, read_certificates
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.config_file import FILE_NAME

RowState = Literal["ok", "warn", "fail", "not known"]


@dataclass(frozen=True)
class DoctorRow:
    """The result of one check; ``text`` says what was found and what to do. ``exit_status`` is that
    of a night that would end because of it, else 0."""

    name: str
    state: RowState
    text: str
    exit_status: int = 0


def build_fail_row(name: str, error: NightshiftError) -> DoctorRow:
    """The row of an error that ends a night."""
    return DoctorRow(name, "fail", error.message, error.exit_status)


def try_rows(name: str, check: Callable[[], Iterable[DoctorRow]]) -> Iterator[DoctorRow]:
    """The rows of ``check``; an error becomes a row too, so that the next checks still run."""
    try:
        yield from check()
    except NightshiftError as error:
        yield build_fail_row(name, error)


# Shown instead of an image, which jobs of a shell or SSH executor do not have.
THIS_MACHINE, RUNNERS_MACHINE = "this machine", "the runner's machine"
LEAST_CONTEXT = 32_768
"""Tokens of context that a model should have (docs/providers.md)."""
CERTIFICATE_FILES = ("CI_SERVER_TLS_CA_FILE", *CA_FILES)


def list_checkout_rows(session: Session) -> Iterator[DoctorRow]:
    """The rows about this machine."""
    yield from try_rows("history", lambda: _describe_history(session))
    yield from try_rows("settings file", lambda: _describe_settings_file(session))
    yield from try_rows("pipeline file", lambda: _describe_pipeline_file(session))
    yield from try_rows("proof", lambda: _describe_proof(session))
    yield from try_rows("image", lambda: _describe_image(session))
    yield from try_rows("CA", lambda: _describe_certificates(session))
    yield from try_rows("agent", lambda: _describe_agent(session))
    yield from try_rows("model", lambda: _describe_models(session))


def _describe_history(session: Session) -> Iterator[DoctorRow]:
    facts = read_checkout_facts(session)
    if facts.unknown_commits:
        text = (
            f"{facts.unknown_commits} of the {session.settings.avoid_recent_commits} commits of"
            " avoid_recent_commits are missing from this clone: a night fetches them"
        )
        yield DoctorRow("history", "ok" if session.secrets.gitlab_token else "warn", text)
        return
    text = f"{facts.target_branch}, with the commits that avoid_recent_commits needs"
    yield DoctorRow("history", "ok", text)


def _describe_settings_file(session: Session) -> Iterator[DoctorRow]:
    """A warning if the file is not committed: jobs read only the commit. Uncommitted changes of a
    committed file are an error of the row ``history``."""
    exists = (session.checkout / FILE_NAME).is_file()
    if exists and not read_committed_file(session.git, session.checkout, "HEAD", FILE_NAME):
        text = f"{FILE_NAME} is not committed, so nights do not read it: commit and push it"
        yield DoctorRow("settings file", "warn", text)


def _describe_pipeline_file(session: Session) -> Iterator[DoctorRow]:
    name = session.job.ci_config_path
    if is_external(name):
        yield DoctorRow("pipeline file", "not known", f"{name} is not in this project")
    elif missing := find_missing_include(session):
        yield DoctorRow("pipeline file", "warn", missing)
    else:
        yield DoctorRow("pipeline file", "ok", f"{name} names nightshift")


def find_missing_include(session: Session) -> str:
    """Why the committed pipeline file has no include of this program, and the next step; "" if
    it has one, or is not in this project."""
    name = session.job.ci_config_path
    if is_external(name):
        return ""
    committed = read_committed_file(session.git, session.checkout, "HEAD", name)
    file = session.checkout / name
    if committed and b"nightshift" in committed:
        return ""
    if file.is_file() and b"nightshift" in file.read_bytes():
        return f"the include of nightshift in {name} is not committed: commit and push it"
    if committed is None and not file.is_file():
        return f"there is no {name}: `nightshift init` writes it, with the include"
    return f"{name} does not include nightshift: `nightshift init` adds it"


def _describe_proof(session: Session) -> Iterator[DoctorRow]:
    verify = find_verify_commands(session)
    source = "found in the build files" if verify.implied else "verify_commands"
    if verify.commands:
        yield DoctorRow("proof", "ok", f"{', '.join(verify.commands)} ({source})")
        return
    text = (
        "no command tests this project: set verify_commands, or nights change only comments and"
        " documents"
    )
    yield DoctorRow("proof", "warn", text)


def _describe_image(session: Session) -> Iterator[DoctorRow]:
    """Check that the image has the programs of the proof's commands."""
    machine = RUNNERS_MACHINE if session.job.in_ci else THIS_MACHINE
    image = session.env.get("CI_JOB_IMAGE") or machine
    words = dict.fromkeys(c.split()[0] for c in find_verify_commands(session).commands)
    # A path, such as ./mvnw, is in the checkout, not in the image.
    programs = [word for word in words if re.fullmatch(r"[\w.+-]+", word)]
    search_path = session.env.get("PATH")
    if missing := [each for each in programs if shutil.which(each, path=search_path) is None]:
        step = "use another image"
        if image == THIS_MACHINE:
            step = "install it, also in the nights' image"
        text = f"{image} lacks {', '.join(missing)}, which verify_commands run: {step}"
        yield DoctorRow("image", "warn", text)
    elif image == THIS_MACHINE:
        text = "this is not a CI job, so what the nights' image contains cannot be seen from here"
        yield DoctorRow("image", "not known", text)
    else:
        yield DoctorRow("image", "ok", f"{image} has {', '.join(programs) or 'what a night needs'}")


def _describe_certificates(session: Session) -> Iterator[DoctorRow]:
    names = [name for name in CERTIFICATE_FILES if session.env.get(name)]
    for name in names:
        if not read_certificates(session.env[name], session.checkout):
            text = f"{name} names no readable file, so connections may fail"
            yield DoctorRow("CA", "warn", f"{text}: correct it, or unset it")
            return
    more = f", and those of {', '.join(names)}" if names else ""
    yield DoctorRow("CA", "ok", f"trusts the machine's certificates{more}")


def _describe_agent(session: Session) -> Iterator[DoctorRow]:
    choice = choose_agent(session.settings, session.search_env)
    build_provider(choice.settings).check(session.search_env)
    for row in list_providers(choice.settings, session.search_env):
        if row.name == choice.settings.agent:
            yield DoctorRow("agent", "ok", f"{choice}, {row.version or 'version unknown'}")


def _describe_models(session: Session) -> Iterator[DoctorRow]:
    settings = choose_agent(session.settings, session.search_env).settings
    provider = build_provider(settings)
    if provider.find_cloud_variables(session.env):
        text = "the agent uses a cloud provider's service: not tried"
        yield DoctorRow("model", "not known", text)
        return
    config = build_gateway_config(settings, provider.keys, session.env, SpendingLimit())
    if config is None or config.upstream is None:
        yield DoctorRow("model", "ok", "this agent uses no model")
        return
    base_url = config.upstream.base_url
    for model in config.models:
        answer = ask_for_model(config.upstream, model)
        status = answer.status
        # A local endpoint may need no key, a provider's own does.
        if status in (401, 403) and not any(session.env.get(name) for name in provider.keys):
            provider.check(session.env)  # raises the error of the agent's row if it needs a key
            text = f"{base_url} asks for a key ({status}): set {provider.keys[0]}"
            yield _build_model_failure(text)
            return
        row = _judge_answer(model, base_url, answer)
        yield row
        if row.exit_status:  # the endpoint fails, so the next model would, too
            return


def _judge_answer(model: str, base_url: str, answer: ProbedModel) -> DoctorRow:
    status = answer.status
    if status == 200 and 0 < answer.context < LEAST_CONTEXT:
        text = (
            f"{base_url} gives {model} a context of {answer.context} tokens: start it with at least"
        )
        return DoctorRow("model", "warn", f"{text} {LEAST_CONTEXT} (docs/providers.md)")
    if status == 200:
        context = f", with a context of {answer.context} tokens" if answer.context else ""
        return DoctorRow("model", "ok", f"{base_url} accepts the key and has {model}{context}")
    if status in (401, 403):
        return _build_model_failure(f"{base_url} rejects the key ({status}): set another")
    if not status:
        return _build_model_failure(
            f"{base_url} cannot be reached: {answer.why} (docs/how-to/company-network.md)"
        )
    if status == 404:  # some endpoints serve models that they do not list
        models = f"; it has {', '.join(answer.listed)}" if answer.listed else ""
        text = f"{base_url} does not have {model}, or does not list its models: correct models"
        return DoctorRow("model", "warn", f"{text}{models}")
    return DoctorRow("model", "not known", f"{base_url} answers {status} when asked for {model}")


def _build_model_failure(text: str) -> DoctorRow:
    return build_fail_row("model", NightshiftError(Code.PROVIDER_UNAVAILABLE, text))
