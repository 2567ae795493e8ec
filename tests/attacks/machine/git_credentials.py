import subprocess

from tests.attacks.places import Places, flag_in

TITLE = "~/.git-credentials by a program of the system"
TRIES = "Lets a shell that it starts feed the file to another program."
PROMISE = "secrets"
MUST_FAIL = "What confines the agent confines all that it starts."


def attack(places: Places) -> str | None:
    command = ["/bin/sh", "-c", 'exec 5< "$0"; cat <&5', places.files["git_credentials"]]
    return flag_in(subprocess.run(command, capture_output=True, check=False).stdout)
