from pathlib import Path

from tests.attacks.git_world import Places, configure, run_git

TITLE = "A tag goes along"
TRIES = "push.followTags pushes annotated tags that nobody asked for; a tag may start a release."
MUST_FAIL = "One fixed refspec, push.followTags=false, no ref of the agent's."
GAINS = ("other refs",)


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "push.followTags", "true")
    run_git(checkout, "tag", "-a", "-m", "x", f"v{checkout.parent.parent.name}", places.base)
