import subprocess

from tests.attacks.places import Places, flag_in

TITLE = "the real repository by git itself"
TRIES = "Asks git for log, reflog and configuration of the repository that was moved away."
PROMISE = "secrets"
MUST_FAIL = "Git has no more rights than the agent that starts it."


def attack(places: Places) -> str | None:
    git = ("git", "-c", "safe.directory=*", f"--git-dir={places.files['git']}")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": places.scratch}
    asked = (("log", "-g"), ("log", "--format=%B"), ("config", "--list"))
    done = [subprocess.run([*git, *a], env=env, capture_output=True, check=False) for a in asked]
    return flag_in(b"".join(one.stdout for one in done))
