"""Nights that people are told of, in one job and in three."""

from pathlib import Path

from tests.nights_stages.test_from_job import publish
from tests.support import confluence as wiki
from tests.support.listeners import listening
from tests.support.shop import GOOD
from tests.support.world import PLAIN, SECRETS, Done, World, world

TOLD = PLAIN + "notify: [$TEAM_CHAT, $OTHER_CHAT]\n"
OFF = {"NIGHTSHIFT_ENABLED": "false"}
TOKEN = "q7RfTokenOfTheChat42xyz"
KILLED_PLAN = """
import importlib, os, signal
planning = importlib.import_module("gitlab_nightshift.run.planning")
planning.emit_run_started = lambda session: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_night_tells_its_merge_request_and_adds_its_line_to_a_page_of_confluence(
    tmp_path: Path,
) -> None:
    """A dry run does not. A chat or a page that fails is a warning."""
    with listening() as there, listening(500) as broken, world(tmp_path, GOOD, config=TOLD) as shop:
        shop.env["TEAM_CHAT"] = f"json://127.0.0.1:{there.port}/{TOKEN}"
        shop.env["OTHER_CHAT"] = f"json://127.0.0.1:{broken.port}/{TOKEN}"
        with wiki.confluence() as page:
            shop.env |= {**page.env, "NIGHTSHIFT_CONFLUENCE_PAGE_ID": wiki.PAGE}
            shop.nightshift("run", "--dry-run", **OFF)
            assert page.asked == []
            done = shop.nightshift("run")
            assert (done.exit_status, done.stderr, shop.result["outcome"]) == (0, "", "MR_CREATED")
            assert_line_is_added(shop, page, done)
        [(path, body)] = there.came
        assert path == f"/{TOKEN}"
        assert "acme/shop: A merge request is open" in body
        assert shop.result["mr_url"] in body
        assert not any(secret in body for secret in SECRETS)
        assert "notify, address 2: JSON did not take the message" in done.log
        assert "MR_CREATED" in done.last_line
        assert TOKEN not in done.stdout + done.stderr + str(shop.products())


def assert_line_is_added(shop: World, page: wiki.Confluence, done: Done) -> None:
    """Once, though a later night cannot add its own."""
    line = page.body.removeprefix("<p>Nights</p>")
    assert shop.merge_requests[0].web_url in line and "MR_CREATED · tests" in line
    page.answer = (500, "")
    again = shop.ends(0, "run", CI_PIPELINE_ID="4712", **OFF)
    assert "confluence_page_id: Confluence answered 500" in again.log
    assert wiki.TOKEN not in done.log + again.log + str(shop.products())
    assert not any(wiki.TOKEN in str(bead.env) for bead in shop.agent.seen)


def test_a_failed_plan_is_told_and_a_rehearsal_is_not(tmp_path: Path) -> None:
    with listening() as there, world(tmp_path, GOOD, config=TOLD) as shop:
        shop.env["TEAM_CHAT"] = shop.env["OTHER_CHAT"] = f"json://127.0.0.1:{there.port}/"
        shop.nightshift("run", "--rehearse")
        assert there.came == []
        assert shop.nightshift("run", GITLAB_TOKEN="").exit_status == 2
        assert len(there.came) == 2
        assert "E_CONFIG: GITLAB_TOKEN is not set" in there.texts


def test_a_mistake_in_the_settings_is_told(tmp_path: Path) -> None:
    """Whoever is named beside the mistake is told, of three jobs by the last; a person who runs it
    by hand sees it."""
    wrong = TOLD + "max_dif_lines: 5\n"
    with listening() as there, world(tmp_path, GOOD, config=wrong) as shop:
        shop.env |= {"TEAM_CHAT": f"json://127.0.0.1:{there.port}/{TOKEN}", "OTHER_CHAT": ""}
        done = shop.nightshift("run")
        shop.assert_nothing_spent(done, 2, "did you mean max_diff_lines?")
        assert "notify: the variable OTHER_CHAT is not set in this job" in done.log
        assert publish(shop).exit_status == 2
        assert shop.nightshift("run", GITLAB_CI="", CI_PIPELINE_ID="").exit_status == 2
        assert shop.nightshift("run", "--rehearse").exit_status == 2
        assert [("did you mean max_diff_lines?" in body) for _, body in there.came] == [True] * 2
        assert "acme/shop: The night failed" in there.texts
        assert not any(secret in there.texts for secret in (*SECRETS, TOKEN))


def test_a_killed_plan_is_told(tmp_path: Path) -> None:
    with listening() as there, world(tmp_path, GOOD, config=TOLD) as shop:
        shop.env["TEAM_CHAT"] = shop.env["OTHER_CHAT"] = f"json://127.0.0.1:{there.port}/"
        shop.patch = KILLED_PLAN
        done = shop.nightshift("run")
        assert (done.exit_status, len(there.came)) == (143, 2)
        assert "the process of plan was killed" in there.texts


def test_an_address_that_reaches_nobody_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    """A variable need not be in the job that only plans; an empty one tells nobody."""
    with listening() as there, world(tmp_path, GOOD, config=TOLD) as shop:
        shop.env["TEAM_CHAT"] = f"json://127.0.0.1:{there.port}/{TOKEN}"
        assert shop.nightshift("plan").exit_status == 0
        done = shop.nightshift("run", **OFF)
        shop.assert_nothing_spent(done, 2, "notify: the variable OTHER_CHAT is not set in this job")
        shop.env["OTHER_CHAT"] = f"ntyf://{TOKEN}"
        for stage in ("plan", "run"):
            done = shop.nightshift(stage)
            why = "notify, address 2: apprise knows no such address; did you mean ntfy://?"
            shop.assert_nothing_spent(done, 2, why)
            assert TOKEN not in done.stdout + done.stderr + str(shop.products())
        assert [("OTHER_CHAT" in body) for _, body in there.came] == [True, False]
        shop.env["OTHER_CHAT"] = ""
        assert shop.nightshift("run", "--dry-run", **OFF).exit_status == 0
