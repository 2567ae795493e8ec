"""What a delegation hands over has passed its test when nothing of an agent was left."""

import json
from pathlib import Path

from tests.support.agent import answer, plays, sh
from tests.support.delegation import POLICY, QUICK, delegations, ended
from tests.support.shop import PASSED
from tests.support.world import git

CHECKED = POLICY.replace("[make, test]", "[sh, SCRIPT]")
ASKED = {"test_command_id": "unit"}


def test_a_test_that_fails_when_it_is_run_once_more_keeps_the_change_back(tmp_path: Path) -> None:
    """No branch and no commit; the bundle is kept, and says what was seen."""
    script, fails = tmp_path / "check.sh", tmp_path / "fails"
    (tmp_path / "world").mkdir()
    script.write_text(f"[ ! -e {fails} ]\n")
    # From when the last bead has begun: work has seen the test pass.
    last = plays(QUICK, {"verify": [sh(f"touch {fails}"), answer(PASSED)]})
    policy = CHECKED.replace("SCRIPT", str(script))
    with delegations(tmp_path / "world", last, config=policy) as context:
        branches = git(context.repository, "branch", "--list")
        done = context.delegate(execution=ASKED)
        done.failed("E_TEST_FAILED", 8, "failed when it was run once more on the change: exit 1")
        result = done.result
        assert (result["test_result"], result["git"]["commit_sha"]) == ("failed", None)
        assert git(context.repository, "branch", "--list") == branches
        kept = Path(result["artifacts"]["diff_bundle"])
        [seen] = json.loads((kept.parent / "notary.json").read_text())["commands"]
        assert [run["exit_status"] for run in seen["runs"]] == [1]
        context.assert_tidy()


def test_a_notary_that_dies_hands_over_nothing(tmp_path: Path) -> None:
    dies = "import os; from gitlab_nightshift.stages.work import notary_process as n; "
    with delegations(tmp_path, QUICK) as context:
        code = f"{dies}n.main = lambda data: os._exit(1)"
        done = ended(context.start(context.payload(execution=ASKED), before=code))
        done.failed("E_INCOMPLETE", 13, "the process of the notary was killed")
        assert done.result["git"]["commit_sha"] is None
