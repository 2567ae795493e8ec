"""The gates of a delegation before any agent runs, and who may approve."""

from collections.abc import Mapping

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.policy.delegation_policy import find_test_refusal, list_gates
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.records.events import Emit, GateApproved, GateDenied, GateRequired
from gitlab_nightshift.settings.model import Settings

ORCHESTRATOR = "NIGHTSHIFT_ORCHESTRATOR"


def find_approver(settings: Settings, job: JobFacts, env: Mapping[str, str]) -> str:
    """Who has approved the delegation as requested, "" where nobody has.

    In a GitLab job: the person who ran the pipeline, or a user whom ``policy.orchestrators`` names.
    Elsewhere: the orchestrator that names itself, where the policy does too.
    """
    named = settings.policy.orchestrators
    if not job.in_ci:
        name = env.get(ORCHESTRATOR, "")
        return f"{name} (policy.orchestrators)" if name in named else ""
    if job.user_login and job.pipeline_source == "web":
        return f"{job.user_login}, who ran the pipeline"
    return f"{job.user_login} (policy.orchestrators)" if job.user_login in named else ""


def pass_gates(payload: Payload, settings: Settings, by: str, emit: Emit) -> None:
    """Decide exec, network and in_place; ``by`` is the approver, "" for none.

    Raises NightshiftError ``E_POLICY_DENY``, ``E_APPROVAL_REQUIRED``, and ``E_CONFIG`` for a
    network without hosts.
    """
    if payload.execution.network == "on" and not settings.policy.egress_hosts:
        raise build_config_error(
            "network: on: policy.egress_hosts lists no host that may be reached"
        )
    asked = list_gates(payload, settings)
    denied = [(each.gate, each.why) for each in asked if each.does == "deny"]
    if why := find_test_refusal(payload, settings):
        denied.append(("exec", why))
    for gate, why in denied:
        emit(GateDenied(gate, why))
    if denied:
        gates = "; ".join(f"{gate}: {why}" for gate, why in denied)
        raise NightshiftError(Code.POLICY_DENY, f"the policy denies it: {gates}")
    for each in asked:
        if each.does == "auto_allow":
            emit(GateApproved(each.gate, f"policy.gates.{each.gate}"))
            continue
        emit(GateRequired(each.gate, each.why))
        if not by:
            raise NightshiftError(
                Code.APPROVAL_REQUIRED, f"{each.why}: {_describe_approval(settings)}"
            )
        emit(GateApproved(each.gate, by))


def _describe_approval(settings: Settings) -> str:
    named = ", ".join(settings.policy.orchestrators) or "nobody"
    return (
        "nobody has approved it; policy.orchestrators of the default branch names who may"
        f" ({named}), and an orchestrator names itself by {ORCHESTRATOR}"
    )
