"""A comment gets one answer, which is updated, however its run ends."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.separation import killing
from tests.support.agent import hang, plays
from tests.support.shop import GOOD
from tests.support.trees import wait_for
from tests.support.webhook import (
    TASK,
    issue_of,
    member,
    payload,
    posted,
    replies,
    triggered,
    written,
)
from tests.support.world import World, ended, world

HANGING = plays(GOOD, {"implement": [hang()]})


def stopped(shop: World, sent: dict[str, Any], *, killed: bool) -> int:
    """The exit status of a run that is terminated while its agent works, or whose process of work
    is killed then."""
    (shop.agent.folder / "hanging").unlink(missing_ok=True)
    shop.agent.script(HANGING)
    shop.patch = killing.patch(shop.folder, "work", "hanging") if killed else ""
    process = shop.start("run", **payload(shop, sent))
    if not killed:
        wait_for(lambda: shop.agent.hanging or process.poll() is not None, "the agent to hang")
        process.send_signal(signal.SIGTERM)
    shop.patch = ""
    return ended(process).exit_status


def test_one_answer_is_updated_however_the_run_ends(tmp_path: Path) -> None:
    """A key that is missing, a signal, a process that is killed, a job without a bundle."""
    with world(tmp_path, GOOD) as shop:
        issue = issue_of(shop, ada := member(shop))
        sent = written(shop, issue, ada, f"/nightshift {TASK}")
        assert triggered(shop, sent, ANTHROPIC_API_KEY="").exit_status == 5
        assert [text.partition(":")[0] for text in replies(shop, issue)] == [
            "The night shift could not do this (`E_PROVIDER_UNAVAILABLE`)"
        ]
        for killed, status, code in ((False, 143, "E_TERMINATED"), (True, 143, "E_TERMINATED")):
            assert stopped(shop, sent, killed=killed) == status
            [answer] = replies(shop, issue)
            assert answer.startswith(f"The night shift could not do this (`{code}`): ")
        shop.checked_out_anew()
        triggered(shop, sent, "publish", "--from-job", "nightshift:work")
        assert "the job nightshift:work left nothing" in replies(shop, issue)[0]
        triggered(shop, sent, "plan", NIGHTSHIFT_TITLE_TEMPLATE="{{nonsense}}")
        assert "unknown placeholder" in replies(shop, issue)[0]
        shop.agent.script(GOOD)
        done = triggered(shop, sent)
        assert done.exit_status == 0, done.log
        [answer] = replies(shop, issue)
        assert answer.startswith("The night shift has opened !1.")
        assert len(posted(shop)) == 1


def test_a_comment_of_a_megabyte_and_an_edited_marker(tmp_path: Path) -> None:
    """One is declined in the one answer; where a maintainer spoils the marker in that, nothing but
    another answer comes of it."""
    with world(tmp_path, GOOD) as shop:
        issue = issue_of(shop, ada := member(shop))
        sent = written(shop, issue, ada, "/nightshift " + '`a "<!-- ' * 100_000)
        for number in ("4711", "4712"):
            assert triggered(shop, sent, CI_PIPELINE_ID=number).exit_status == 0
            [answer] = replies(shop, issue)
            assert "the task has more than 8000 characters" in answer
        marker = f"<!-- nightshift-reply: done note {'9' * 30} run {'x' * 200} -->"
        issue.notes[-1] = replace(issue.notes[-1], body=marker)
        assert triggered(shop, sent, CI_PIPELINE_ID="4713").exit_status == 0
        assert len(replies(shop, issue)) == 2
        assert shop.agent.seen == []


def test_of_two_pipelines_for_one_comment_one_goes_on(tmp_path: Path) -> None:
    """The other one has read the thread before the first one answered, and leaves that alone."""
    with world(tmp_path, GOOD) as shop:
        issue = issue_of(shop, ada := member(shop))
        sent = written(shop, issue, ada, f"/nightshift {TASK}")
        [asked] = issue.notes
        person = {"id": ada.id, "name": "Ada"}
        before = {"id": asked.thread, "notes": [{"id": asked.id, "author": person}]}
        bot = next(user for user in shop.gitlab.users if user.username == "night-bot")
        first = f"It has begun.\n\n<!-- nightshift-reply: started note {asked.id} run 4710 -->"
        issue.notes.append(replace(asked, id=9, body=first, author=bot))
        shop.gitlab.fail_next("GET", f"/discussions/{asked.thread}", 200, before)
        done = triggered(shop, sent)
        assert (done.exit_status, shop.result["outcome"]) == (0, "SKIPPED"), done.log
        assert "already been handled, by pipeline 4710" in done.log
        assert [note.body for note in issue.notes[1:]] == [first]
        assert shop.agent.seen == []
