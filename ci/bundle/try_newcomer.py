"""``python -m ci.bundle.try_newcomer ARCHIVE [FOLDER]``: from nothing to the first merge request.

In copies of root file systems that ``try_bundle.sh`` has made in FOLDER, with the build tools of
a project, the bundle is unpacked and a newcomer's commands are run on a stand-in for GitLab:
``init``, ``init --merge-request`` and the merge. Then come the jobs of the scheduled night, with
what init has written and stored, and a scripted model. Needs root and the internet, and takes
minutes; ONLY names some of the projects.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ci.bundle.newcomer_projects import PROJECTS, SampleProject
from gitlab_nightshift.onboarding.onboarding_request import BRANCH
from gitlab_nightshift.onboarding.project_files import JOB, TEMPLATE, parse_config
from tests.support.model_endpoint import ModelEndpoint
from tests.support.setup_endpoints import MADE_TOKEN, ProjectSettings, add_setup
from tests.support.shop import BEADS, DRAFT, FOUND, PASSED
from tests.support.standin_records import PipelineJob
from tests.support.turns import Turn, say
from tests.support.world import World, git, world

ROOTS = Path("/var/tmp/nightshift-roots")  # noqa: S108 - the roots of try_bundle.sh
CAS = Path("/usr/local/share/ca-certificates")
OWNER = "glpat-TheMaintainersToken01"
KEY = "sk-test-OpenAiKeyOfTheNight04"
PATH = "/usr/local/bin:/usr/bin:/bin"
WORK = "nightshift:work"
ENTER = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mkdir -p "$1$2" &&
mount --bind "$2" "$1$2" && top=$1 place=$3 && shift 3 &&
exec chroot "$top" /usr/bin/env -i "$@"
"""


@dataclass
class Newcomer:
    """A person with a clone, and then the jobs, in one root file system."""

    root: Path
    sample: SampleProject
    shop: World
    made: ProjectSettings
    settings: Mapping[str, str]
    seen: list[str] = field(default_factory=list)

    @property
    def laptop(self) -> Path:
        return self.shop.folder / "laptop" / "shop"

    def run(self, place: Path, env: Mapping[str, str], *command: str) -> str:
        """What a command prints in the root file system; ends the program where it fails."""
        tools = self.shop.folder / "tools" / "bin"
        whole = {"PATH": f"{tools}:{PATH}", "HOME": "/root", "LANG": "C.UTF-8", **env}
        pairs = [f"{name}={value}" for name, value in whole.items()]
        change = ["sh", "-c", 'cd "$0" && exec "$@"', str(place), *command]
        enter = ["sh", "-c", ENTER, "sh", str(self.root), str(self.shop.folder), str(place)]
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", *enter, *pairs, *change],  # noqa: S607
            text=True,
            capture_output=True,
            check=False,
        )
        self.seen += [done.stdout, done.stderr]
        if done.returncode:
            sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def set_up(self) -> None:
        """The newcomer's commands, in a fresh clone."""
        self.laptop.parent.mkdir()
        git(self.laptop.parent, "clone", "-q", self.shop.project.http_url, str(self.laptop))
        env = {"GITLAB_TOKEN": OWNER, "OPENAI_API_KEY": KEY, **self.settings}
        if self.sample.build:
            self.run(self.laptop, {}, "sh", "-c", self.sample.build)
        shown = self.run(self.laptop, env, "nightshift", "init", "--gitlab", "--dry-run")
        require(": passed in " in shown, f"the test command did not pass:\n{shown}")
        require(not self.made.tokens, "a dry run made a token")
        for _ in range(2):  # it is safe to run again
            ask = ("init", "--merge-request", "--model-key", "OPENAI_API_KEY")
            self.run(self.laptop, env, "nightshift", *ask)
        [request] = self.shop.merge_requests
        require("Before you merge" not in str(request.description), str(request.description))
        bare = self.shop.project.bare_repository
        git(bare, "update-ref", "refs/heads/main", f"refs/heads/{BRANCH}")
        git(bare, "update-ref", "-d", f"refs/heads/{BRANCH}")
        request.change_state("merged")

    def spend_night(self) -> None:
        """The three jobs of the schedule's pipeline, with the variables that init has stored."""
        [schedule] = self.shop.project.schedules
        require(schedule.active, "the schedule is not active")
        stored = {name: str(each["value"]) for name, each in self.made.secrets.items()}
        require(set(stored) == {"GITLAB_TOKEN", "OPENAI_API_KEY"}, f"stored: {sorted(stored)}")
        self.shop.gitlab.add_token(MADE_TOKEN, self.shop.gitlab.users[0], access_level=30)
        self.shop.checked_out_anew()
        job = {n: v for n, v in self.shop.env.items() if n.startswith(("CI", "GITLAB_USER_"))}
        job |= {"GITLAB_CI": "true", **schedule.variables, **self.settings}
        job["NIGHTSHIFT_CATEGORY"] = "tests"  # whatever the day, the model finds a test
        token = {"GITLAB_TOKEN": stored["GITLAB_TOKEN"]}
        before, variables = self.read_preparation()
        place = self.shop.checkout
        self.run(place, job | token, "nightshift", "plan")
        self.run(place, job | variables, "sh", "-c", before)
        key = {"OPENAI_API_KEY": stored["OPENAI_API_KEY"]}
        self.run(place, job | variables | key, "nightshift", "work")
        kept = self.shop.folder / "artifacts"
        shutil.copytree(place / "nightshift", kept / "nightshift")
        self.shop.project.jobs.append(PipelineJob(12, 4711, WORK, kept))
        self.shop.checked_out_anew()
        self.run(place, job | token, "nightshift", "publish", "--from-job", WORK)

    def read_preparation(self) -> tuple[str, dict[str, str]]:
        """The command before the agent, and the variables of its job, as init wrote them."""
        name = ".gitlab-ci.yml"
        config = parse_config((self.shop.checkout / name).read_text(), name)
        [include] = [each for each in config["include"] if each.get("file") == TEMPLATE]
        variables = config.get(JOB, {}).get("variables", {})
        return include.get("inputs", {}).get("extra_before", ":"), variables


def require(true: object, what: str) -> None:
    """End the program where something is not as it has to be."""
    if not true:
        sys.exit(what)


def make_root(sample: SampleProject, roots: Path) -> Path:
    """The root file system with the project's build tools; it stays for the next time."""
    root, made = roots / f"newcomer-{sample.name}", roots / f"newcomer-{sample.name}" / "made-too"
    if made.exists():
        return root
    base = roots / sample.base
    require((base / "made").exists(), f"{base} is missing: run ci/bundle/try_bundle.sh")
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", base, root], check=True)  # noqa: S607
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if CAS.is_dir():  # what this machine trusts, the build tools have to trust, too
        shutil.copytree(CAS, root / CAS.relative_to("/"), dirs_exist_ok=True)
    install = f"apt-get update -q && apt-get install -qy --no-install-recommends {sample.packages}"
    env = {"PATH": f"{PATH}:/usr/sbin:/sbin", "DEBIAN_FRONTEND": "noninteractive"}
    inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh -c "$1"'  # a JDK asks for it
    enter = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", inside, str(root), install]
    with (roots / f"{root.name}.log").open("w") as log:
        subprocess.run(enter, env=env, stdout=log, stderr=log, check=True)
    made.touch()
    return root


@contextmanager
def build_newcomer(sample: SampleProject, root: Path, archive: Path) -> Iterator[Newcomer]:
    """The stand-in with the project, the model, and the bundle unpacked."""
    turns: dict[str, list[Turn]] = {
        "analyze": [say(json.dumps({**FOUND, **sample.found}))],
        "implement": [say(sample.blocks)],
        "verify": [say(json.dumps({**PASSED, "commands_run": []}))],
        "mr": [say(json.dumps(DRAFT))],
    }
    with (
        tempfile.TemporaryDirectory() as name,
        world(Path(name), config="", files=sample.files) as shop,
        ModelEndpoint(turns, bead_of=BEADS) as endpoint,
    ):
        shop.folder.chmod(0o755)
        shop.project.visibility = "public"  # to clone it without a password
        shop.gitlab.add_project("acme/gitlab-nightshift")
        shop.gitlab.add_token(OWNER, shop.gitlab.users[1], access_level=40)
        tools = shop.folder / "tools"
        (tools / "bin").mkdir(parents=True)
        subprocess.run(["tar", "-xzf", archive, "-C", tools], check=True)  # noqa: S607
        bundle = archive.name.removesuffix("-x86_64.tar.gz")
        (tools / "bin/nightshift").symlink_to(tools / bundle / "bin/nightshift")
        settings = {
            "NIGHTSHIFT_AGENT": "patch",
            "NIGHTSHIFT_MODEL_ENDPOINT": f"{endpoint.url}/v1",
            "NIGHTSHIFT_MODELS__IMPLEMENT": "scripted",
            "NIGHTSHIFT_MAX_TOKENS": "1000000",
        }
        yield Newcomer(root, sample, shop, add_setup(shop.gitlab), settings)


def try_project(sample: SampleProject, roots: Path, archive: Path) -> str:
    """The whole way; a line about it."""
    root, started = make_root(sample, roots), time.monotonic()
    with build_newcomer(sample, root, archive) as newcomer:
        newcomer.set_up()
        newcomer.spend_night()
        _, opened = newcomer.shop.merge_requests
        require(opened.title.endswith(DRAFT["title"]), opened.title)
        require(opened.labels == ["night-shift", "tests"], str(opened.labels))
        told = [each for each in (OWNER, KEY, MADE_TOKEN) if each in "".join(newcomer.seen)]
        require(not told, "a secret was printed")
    took = time.monotonic() - started
    return f"{sample.name}: set up, merged, and the first night opened !{opened.iid}: {took:.0f} s"


if __name__ == "__main__":
    wanted = os.environ.get("ONLY", " ".join(PROJECTS)).split()
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOTS
    for each in wanted:
        print(try_project(PROJECTS[each], place, Path(sys.argv[1]).resolve()), flush=True)  # noqa: T201
