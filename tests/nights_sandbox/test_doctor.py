"""``nightshift doctor --boundary`` and the night after it: the same selection, the same words."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.sandbox.tiers import OWN_CODE
from tests.nights_sandbox.test_boundary import open_folder
from tests.support.sandboxes import scripted, with_agent
from tests.support.world import Done, World, world

__all__ = ["open_folder"]

WITHOUT_NOTIFY = "from tests.support import without_notify; without_notify.refuse_notification()\n"
"""On an older kernel: no connect can be judged."""
EXAMINE = """
import dataclasses, json, os, sys
from pathlib import Path
from gitlab_nightshift.commands.doctor_boundary import examine
from gitlab_nightshift.commands.doctor_boundary import format_examination
from gitlab_nightshift.run_folder import Invocation
seen = examine(Invocation(os.environ, Path.cwd(), None, {}, False))
text = format_examination(seen, verbose=False, colour=False)
json.dump([text, seen.exit_status, dataclasses.asdict(seen.chosen)], sys.stdout)
sys.stdout.flush()
os._exit(0)
"""


def doctor(shop: World, *args: str, **env: str) -> Done:
    return shop.nightshift("doctor", "--boundary", *args, **env)


def examined(shop: World, **env: str) -> tuple[list[str], int, Any]:
    """What the doctor prints, its exit status, and the record of its selection."""
    done = replace(shop, patch=shop.patch + EXAMINE).nightshift("doctor", **env)
    text, status, chosen = json.loads(done.stdout)
    return text.splitlines(), status, chosen


def chosen_by_the_night(shop: World) -> Any:
    [event] = shop.list_events("boundary_chosen")
    return {key: value for key, value in event.items() if key not in {"time", "event", "run_id"}}


def test_a_guarantee_that_is_only_partly_held_stops_the_night_unless_it_is_accepted(
    open_folder: Path,
) -> None:
    config = "verify_commands: ['true']\npolicy: {egress_hosts: [registry.example]}\n"
    with world(open_folder, config=config) as shop:
        shop.patch = WITHOUT_NOTIFY
        path = with_agent(shop, "scripted", scripted("echo '# x' >> test_shop.py"))
        env = {"NIGHTSHIFT_ISOLATION": "landlock", "PATH": path}

        lines, status, chosen = examined(shop, **env)
        assert (status, len(lines) <= 10) == (3, True), lines
        said = lines[-1].removeprefix("No night would start here: ")
        assert said.startswith(
            "files, network are only partly held in the tier landlock (modes and"
        )
        assert "changes cannot be judged (" in said
        assert "; TCP goes to the gateway's port on any host: connects cannot be judged (" in said
        assert "accept_partial: [files, network]" in said
        done = shop.nightshift("run", **env)
        shop.assert_nothing_spent(done, 3, said)
        assert (shop.result["error_code"], shop.result["reason"]) == ("E_POLICY_DENY", said)
        assert chosen_by_the_night(shop) == chosen

        env["NIGHTSHIFT_ACCEPT_PARTIAL"] = "network,files"
        done = shop.nightshift("run", **env)
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        accepted = "landlock (files partial as accepted, secrets held, network partial as accepted,"
        assert shop.result["isolation"].startswith(accepted)
        assert accepted in (shop.merge_requests[0].description or "")
        before = shop.products()
        lines, status, chosen = examined(shop, **env)
        assert status == 0, lines
        assert "files and network only partly held, as accept_partial allows" in lines[-1]
        assert chosen == chosen_by_the_night(shop)
        assert (chosen["tier"], chosen["agent"]) == ("landlock", "claude_code")
        assert chosen["hosts"] == ["registry.example:443"]
        assert chosen["places"] == [str(shop.folder / "scripted/claude")]
        assert shop.products() == before, "an earlier night's results stay as they are"
        shop.assert_restored()


def test_in_a_job_whose_pythonpath_leads_into_the_checkout_our_own_code_was_tried(
    open_folder: Path,
) -> None:
    """The control is a start that is not sealed."""
    with world(open_folder, config="agent_paths: [/usr/share]\n") as shop:
        docs = shop.checkout / "docs"
        env = {
            "NIGHTSHIFT_ISOLATION": "auto",
            "CI_PROJECT_DIR": str(shop.checkout),
            "PYTHONPATH": str(docs),
            "NODE_OPTIONS": "--require=a-value-that-stays-unsaid",
            "DEPLOY": "glpat-abcdEFGH1234567890ab",
        }
        shop.python = Path(sys.executable)
        looked = doctor(shop, **env)
        assert looked.exit_status == 0, looked.log + looked.stderr
        assert len(looked.log.splitlines()) <= 10, looked.log
        (row,) = [line for line in looked.log.splitlines() if line.startswith(OWN_CODE.title)]
        assert "held:" in row
        assert "12 attempts, nothing planted in the checkout and docs was loaded" in row
        assert "\x1b[32m" + OWN_CODE.title in looked.stdout
        assert "agent_paths: /usr/share" in looked.log
        for text in ("PYTHONPATH (leads into the checkout)", "DEPLOY (contains a token)"):
            assert text in looked.log
        assert "a-value-that-stays-unsaid" not in looked.stdout + looked.stderr
        assert env["DEPLOY"] not in looked.stdout + looked.stderr
        shop.python = None
        evidence = doctor(shop, "--verbose", **env)
        assert f"{OWN_CODE.title:<33}held:   12 tried: not found" in evidence.log

        code = "import sys, os; from gitlab_nightshift import cli;"
        code += "sys.exit(cli.run(['doctor', '--boundary'], os.environ))"
        bare = subprocess.run(
            [sys.executable, "-P", "-c", code],
            cwd=shop.checkout,
            env={**shop.env, **env, "PYTHONPATH": "", "PATH": f"{shop.env['PATH']}:{docs}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert bare.returncode == 3, bare.stderr
        assert "start here: the boundary does not hold here: load a program of" in bare.stdout
        assert [p for p in docs.iterdir() if "planted" in p.name] == []


def test_a_night_that_could_not_start_for_another_reason_is_told_with_its_status(
    tmp_path: Path,
) -> None:
    with world(tmp_path) as shop:
        shop.patch = WITHOUT_NOTIFY
        looked = doctor(shop, NIGHTSHIFT_ISOLATION="landlock", ANTHROPIC_API_KEY="")
        shop.patch = ""
        assert looked.exit_status == 5
        assert looked.last_line.startswith("No night would start here: no model key: set ")
        assert "; also: files, network are only partly held in the tier" in looked.last_line
        assert looked.log.startswith("The sandbox is landlock"), "looked at all the same"
        looked = doctor(shop, NIGHTSHIFT_ACCEPT_PARTIAL="netwrok", NIGHTSHIFT_ISOLATION="landlock")
        assert looked.exit_status == 2
        assert "accept_partial.0: should be 'files', 'secrets', 'network'" in looked.last_line
        looked = doctor(shop, "--set", "accept_partial=files,network")
        assert (looked.exit_status, os.linesep in looked.last_line) == (0, False)
        assert "without a sandbox (isolation: none)" in looked.last_line
        (shop.checkout / "shop.py").write_text("# changed\n")
        looked = doctor(shop)
        assert looked.exit_status == 11
        assert looked.last_line.startswith("No night would start here: ")
