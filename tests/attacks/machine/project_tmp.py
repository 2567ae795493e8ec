from pathlib import Path

from tests.attacks.places import Places, flag_in, read

TITLE = "the runner's <project>.tmp"
TRIES = "Reads the runner's credentials and file variables through a symbolic link in the checkout."
PROMISE = "secrets"
MUST_FAIL = "A link grants nothing: what it names has to be allowed by itself."


def attack(places: Places) -> str | None:
    link = Path(places.checkout, "innocent")
    link.symlink_to(Path(places.files["project_tmp"]).parent)
    names = (".gitlab-runner.ext.conf", "DEPLOY_KEY")
    return flag_in(b"".join(read(link / name) for name in names))
