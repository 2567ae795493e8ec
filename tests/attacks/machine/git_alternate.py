import subprocess
from pathlib import Path

from tests.attacks.places import Places, flag_in

TITLE = "packed objects by an alternate"
TRIES = "Makes a repository of its own that borrows the objects of the job's other one."
PROMISE = "secrets"
MUST_FAIL = "The packs cannot be read, by whatever name they are borrowed."


def attack(places: Places) -> str | None:
    own = Path(places.scratch, "borrower")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": places.scratch}
    subprocess.run(["git", "init", "-q", "--bare", str(own)], env=env, check=True)
    (own / "objects/info/alternates").write_text(f"{places.files['git']}/objects\n")
    ask = ["git", f"--git-dir={own}", "cat-file", "--batch-all-objects", "--batch"]
    return flag_in(subprocess.run(ask, env=env, capture_output=True, check=False).stdout)
