"""The processes of this program: the secrets, files and network of each. One function starts each
from its row (``sandbox/stage_process.py``). ``SECURITY.md`` shows the table.

``{name}`` in a path is replaced at the start (``process_places.py``); a path that is only
``{name}`` may stand for several.
"""

from dataclasses import dataclass
from enum import StrEnum

INSTALLATION_FILES, NETWORK_FILES, PROGRAM_FILES = "{installation}", "{network}", "{programs}"
"""Sets of paths: this program with its Python and libraries; certificates and name resolution; the
system's programs and git."""
ALL_FILES = "/"
"""All but the files of HOME that contain credentials: only the supervisor reads those."""


class Confined(StrEnum):
    """When a process is confined to its row."""

    AT_START = "at its start"
    ON_TASK = "when it gets its task"
    AS_WORK = "before its first agent"
    NOT = "no"


class Attributes(StrEnum):
    """Whose modes, owners, times and extended attributes a process may change. Landlock does not
    confine this by path: a process that confines itself keeps all of it or none."""

    NONE = ""
    WRITTEN = "what it writes"
    ANY = "any file"


@dataclass(frozen=True)
class ProcessRow:
    """A process. ``module`` contains its ``main``, ``commands`` start it. In words, "" for none:
    the ``secrets`` it holds, the input from agents that it reads and its bounds (``agent_bytes``),
    what it may reach (``network``), the processes that it starts (``children``). ``serves``: it
    listens on sockets that it gets from its parent. ``memory`` (bytes of data), ``cpu_s`` and
    ``wall_s`` (seconds) are limits, 0 for none.
    """

    name: str
    module: str
    commands: tuple[str, ...]
    confined: Confined
    secrets: str = ""
    agent_bytes: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    network: str = ""
    children: str = ""
    serves: bool = False
    attributes: Attributes = Attributes.NONE
    memory: int = 0
    cpu_s: int = 0
    wall_s: float = 0.0


_MB = 1024**2
_RUNS = ("run", "delegate")

REDACTOR = ProcessRow(
    "redactor",
    "gitlab_nightshift.run.redactor_process",
    _RUNS,
    Confined.AT_START,
    secrets="the values of all secrets",
    agent_bytes="bounded, validated frames of events, logs and records",
    reads=(INSTALLATION_FILES,),
    writes=("{private}", "{live}"),
)
PLAN = ProcessRow(
    "plan",
    "gitlab_nightshift.run.plan_process",
    ("run",),
    Confined.ON_TASK,
    secrets="all but the model key",
    agent_bytes="bundle and results of earlier jobs, as records; texts of earlier merge requests",
    reads=(ALL_FILES,),
    writes=("{repository}", "{private}"),
    network="GitLab",
    children="git, the address check",
    attributes=Attributes.ANY,
)
GATEWAY = ProcessRow(
    "gateway",
    "gitlab_nightshift.gateway.gateway_process",
    (*_RUNS, "check --run", "patch"),
    Confined.ON_TASK,
    secrets="the model key, a proxy's credentials",
    agent_bytes="HTTP requests, bounded and strictly read",
    reads=(INSTALLATION_FILES, NETWORK_FILES, "{named}"),
    network="the model's endpoint, `policy.egress_hosts`",
    serves=True,
)
WORK = ProcessRow(
    "work",
    "gitlab_nightshift.stages.work.work_process",
    ("run",),
    Confined.AS_WORK,
    agent_bytes="all that agents write and print",
    reads=("the public system", "the checkout"),
    writes=("the checkout", "its folders"),
    network="the gateway",
    children="sandboxed agents and commands, git",
    attributes=Attributes.WRITTEN,
)
NOTARY = ProcessRow(
    "notary",
    "gitlab_nightshift.stages.work.notary_process",
    _RUNS,
    Confined.AS_WORK,
    agent_bytes="the bundle reader's report, checked; what commands print, passed on unread",
    reads=WORK.reads,
    writes=("the checkout or its own", "its folders"),
    children="the bundle reader, sandboxed commands, git",
    attributes=Attributes.WRITTEN,
)
PUBLISH = ProcessRow(
    "publish",
    "gitlab_nightshift.run.publish_process",
    ("run",),
    Confined.ON_TASK,
    secrets="`GITLAB_TOKEN`, the values of all secrets",
    agent_bytes="the bundle reader's report, checked; the bundle, as records",
    reads=(INSTALLATION_FILES, PROGRAM_FILES, NETWORK_FILES, "{objects}", "{private}"),
    writes=("{private}",),
    network="GitLab",
    children="the bundle reader, git in its own repositories",
)
BUNDLE_READER = ProcessRow(
    "bundle reader",
    "gitlab_nightshift.repository.bundle_reader",
    ("run", "delegate", "publish"),
    Confined.AT_START,
    agent_bytes="`bundle.json`, `change.patch`",
    reads=(INSTALLATION_FILES, PROGRAM_FILES, "{objects}"),
    writes=("{own}",),
    children="git",
    memory=512 * _MB,
    cpu_s=300,
    wall_s=600.0,
)
REPORT = ProcessRow(
    "report",
    "gitlab_nightshift.stages.report.report_process",
    ("run",),
    Confined.AT_START,
    agent_bytes="`bundle.json`, `change.patch`, `published.json`, those of an upkeep",
    reads=(
        INSTALLATION_FILES,
        *("{results}/bundle", "{results}/notary.json", "{results}/published.json"),
        *("{results}/upkeep/bundle", "{results}/upkeep/published.json"),
    ),
    memory=1024 * _MB,
    cpu_s=120,
    wall_s=300.0,
)
ADDRESSES = ProcessRow(
    "addresses",
    "gitlab_nightshift.run.addresses_process",
    ("run",),
    Confined.AT_START,
    secrets="`NIGHTSHIFT_*` variables",
    reads=(ALL_FILES,),
    writes=("{own}",),
    children="git",
    wall_s=60.0,
)
NOTIFY = ProcessRow(
    "notify",
    "gitlab_nightshift.stages.report.notify_process",
    ("run",),
    Confined.AT_START,
    secrets="the addresses of `notify`, `CONFLUENCE_TOKEN`",
    agent_bytes="`result.json`, as records; Confluence's page, up to 16 MB",
    reads=(INSTALLATION_FILES, NETWORK_FILES, "{results}/result.json", "{named}"),
    network="the internet",
    memory=1024 * _MB,
    cpu_s=60,
    wall_s=60.0,
)
NOTIFY_CHECK = ProcessRow(
    "address check",
    NOTIFY.module,
    ("run", "doctor"),
    Confined.AT_START,
    secrets="the addresses of `notify`",
    reads=(INSTALLATION_FILES,),
    memory=1024 * _MB,
    cpu_s=60,
    wall_s=60.0,
)
PREPARE = ProcessRow(
    "prepare",
    "gitlab_nightshift.run.prepare_process",
    ("delegate",),
    Confined.ON_TASK,
    secrets="all but the model key",
    reads=(ALL_FILES,),
    writes=("{repository}", "{private}"),
    network="a repository's server",
    children="git",
    attributes=Attributes.ANY,
)
TASK = ProcessRow(
    "delegated work",
    "gitlab_nightshift.stages.work.delegation.task_process",
    ("delegate",),
    Confined.AS_WORK,
    agent_bytes=WORK.agent_bytes,
    reads=WORK.reads,
    writes=("its own checkout", "its folders"),
    network=WORK.network,
    children=WORK.children,
    attributes=Attributes.WRITTEN,
)
FINISH = ProcessRow(
    "finish",
    "gitlab_nightshift.run.finish_process",
    ("delegate",),
    Confined.ON_TASK,
    agent_bytes="work's answer and bundle, as records; the bundle reader's report, checked",
    reads=(ALL_FILES,),
    writes=("{repository}", "{private}"),
    children="the bundle reader, git",
    attributes=Attributes.ANY,
)
WORK_TRIAL = ProcessRow(
    "trial of work",
    "gitlab_nightshift.sandbox.confinement_trial",
    ("check --run", "doctor"),
    Confined.AS_WORK,
    reads=WORK.reads,
    writes=("its folders",),
    attributes=Attributes.WRITTEN,
)
_THIS_PROGRAM = "gitlab_nightshift.sealed_entry"
SUPERVISOR = ProcessRow(
    "supervisor",
    _THIS_PROGRAM,
    _RUNS,
    Confined.NOT,
    secrets="all",
    agent_bytes="the bundle, as records; the others' answers, bounded",
    reads=("the job's files",),
    writes=("the checkout", "{private}", "the output folder"),
    children="all others, git",
    attributes=Attributes.ANY,
)
JOBS = ProcessRow(
    "plan, publish as commands",
    _THIS_PROGRAM,
    ("plan", "publish"),
    Confined.ON_TASK,
    secrets="all",
    agent_bytes="as the processes of these names",
    reads=(ALL_FILES,),
    writes=("{repository}", "{temporary}"),
    network="GitLab",
    children="the bundle reader, notify, the address check, git",
    attributes=Attributes.ANY,
)
CHECK = ProcessRow(
    "check",
    _THIS_PROGRAM,
    ("check",),
    Confined.ON_TASK,
    secrets="all",
    agent_bytes="a change",
    reads=(ALL_FILES,),
    writes=("{temporary}", "{output}"),
    children="git",
    attributes=Attributes.ANY,
)
PATCH = ProcessRow(
    "patch",
    _THIS_PROGRAM,
    ("patch",),
    Confined.ON_TASK,
    secrets="all",
    agent_bytes="a model's answers, bounded",
    reads=(INSTALLATION_FILES, PROGRAM_FILES, "{repository}"),
    writes=("{temporary}",),
    network="the gateway",
    children="the gateway, git",
)
COMMANDS = ProcessRow(
    "other commands",
    _THIS_PROGRAM,
    ("check --run", "doctor"),
    Confined.NOT,
    secrets="all",
    agent_bytes="`check --run`: a change, and what its commands print",
    reads=("the job's files",),
    writes=("the checkout", "the output folder"),
    network="GitLab",
    children="those named here, git",
    attributes=Attributes.ANY,
)
CHAT = ProcessRow(
    "chat",
    _THIS_PROGRAM,
    ("chat",),
    Confined.ON_TASK,
    secrets="GitLab's token, the bot's token",
    agent_bytes="`result.json` and `bundle.json` of its runs, as records; the beginning of a patch",
    reads=(INSTALLATION_FILES, NETWORK_FILES),
    network="GitLab, Discord",
    serves=True,
)
ROWS = (
    *(SUPERVISOR, REDACTOR, PLAN, GATEWAY, WORK, NOTARY, PUBLISH, BUNDLE_READER, REPORT, ADDRESSES),
    *(NOTIFY, NOTIFY_CHECK, PREPARE, TASK, FINISH, WORK_TRIAL, JOBS, CHECK),
    *(PATCH, COMMANDS, CHAT),
)
