from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "Push options that merge"
TRIES = "push.pushOption sends GitLab's merge_request.* options along with the push."
MUST_FAIL = "No option is sent, and no configuration of the agent's is read."
GAINS = ("push options",)


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "push.pushOption", "merge_request.create")
    configure(checkout, "push.pushOption", "merge_request.merge_when_pipeline_succeeds")
