"""Git attacks that have a program run."""

import shutil
from pathlib import Path

from tests.attacks.checkout_attacks import git_attack
from tests.attacks.git_world import Places, configure, hook, run_git


@git_attack(
    "No configuration of the agent's is read.",
    ("program",),
    held_by_git="an alias never takes the place of a command of git's own",
)
def alias(checkout: Path, places: Places) -> None:
    """alias.push and alias.commit are shell commands."""
    for name in ("add", "commit", "push", "diff"):
        configure(checkout, f"alias.{name}", f"!{places.program()}")


@git_attack(
    "GIT_ASKPASS is set, and core.askPass empty.", ("program", "token"), token_by="ssh_askpass"
)
def ask_pass(checkout: Path, places: Places) -> None:
    """core.askPass comes before the SSH_ASKPASS that a program set for its token."""
    configure(checkout, "core.askPass", places.program(then="echo x"))


@git_attack("The agent's .git is never read, nor brought back.", ("program", "token"))
def common_dir(checkout: Path, places: Places) -> None:
    """.git/commondir makes git read hooks, configuration and refs of another folder."""
    shutil.copytree(checkout / ".git", places.lair)
    configure(places.lair, "core.fsmonitor", places.program(), file="config")
    (checkout / ".git/commondir").write_text(f"{places.lair}\n")


@git_attack(
    "The push has an empty list of helpers, and no configuration of the agent's.",
    ("program", "token"),
)
def credential_helper(checkout: Path, places: Places) -> None:
    """A helper in .git/config is told each credential that worked, to store it."""
    keep = f"cat >> {places.loot}/stored"
    configure(checkout, "credential.helper", f"{places.program(then=keep)}")


@git_attack(
    "The push has an empty list of helpers, and no configuration of the agent's.",
    ("program", "token"),
)
def credential_helper_of_a_url(checkout: Path, places: Places) -> None:
    """credential.<url>.helper, in a file that .git/config includes: easy to overlook."""
    keep = f"cat >> {places.loot}/stored"
    places.lair.mkdir()
    program = places.program(then=keep)
    (places.lair / "more").write_text(f'[credential "{places.project}"]\n\thelper = {program}\n')
    configure(checkout, "include.path", places.lair / "more")


@git_attack("The diff is made in a private repository, with --no-ext-diff.", ("program", "token"))
def diff_external(checkout: Path, places: Places) -> None:
    """diff.external runs as soon as somebody looks at the change, and shows what it likes."""
    configure(checkout, "diff.external", places.program(then="echo nothing changed"))


@git_attack(
    "No git here opens an editor.", ("program",), held_by_git="commit with -m opens no editor"
)
def editor(checkout: Path, places: Places) -> None:
    """core.editor and sequence.editor are programs of the agent's."""
    configure(checkout, "core.editor", places.program())
    configure(checkout, "sequence.editor", places.program())


@git_attack(
    "Files are read as bytes and staged with the configuration from before the agent.",
    ("program", "token"),
)
def filter_clean(checkout: Path, places: Places) -> None:
    """A filter in .git/config, assigned to all files where no diff shows it."""
    configure(checkout, "filter.x.clean", places.program(then="cat"))
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/attributes").write_text("* filter=x\n")


@git_attack(
    "A change that needs a filter is refused by name: no filter is run here.",
    ("program", "token"),
    refused="shop.py: it needs the filter x",
)
def filter_in_the_tree(checkout: Path, places: Places) -> None:
    """The same with the assignment in a file of the change."""
    configure(checkout, "filter.x.clean", places.program(then="cat"))
    (checkout / ".gitattributes").write_text("*.py filter=x\n")


@git_attack(
    "Files are read as bytes and staged with the configuration from before the agent.",
    ("program", "token"),
)
def filter_process(checkout: Path, places: Places) -> None:
    """filter.x.process is started once and stays alive beside git."""
    configure(checkout, "filter.x.process", places.program())
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/attributes").write_text("*.py filter=x\n")


@git_attack(
    "No git looks at the agent's tree: what differs is told by stat alone.", ("program", "token")
)
def fsmonitor(checkout: Path, places: Places) -> None:
    """Set core.fsmonitor to a program: git status and git add run it."""
    configure(checkout, "core.fsmonitor", places.program())


@git_attack(
    "The real .git is elsewhere meanwhile; whatever stands in its place is taken away unread.",
    ("program", "token"),
)
def git_is_a_file(checkout: Path, places: Places) -> None:
    """.git says `gitdir:` and leads to a repository of the agent's with hooks."""
    shutil.move(checkout / ".git", places.lair)
    (checkout / ".git").write_text(f"gitdir: {places.lair}\n")
    configure(places.lair, "core.fsmonitor", places.program(), file="config")


@git_attack(
    "The real .git is elsewhere meanwhile; whatever stands in its place is taken away unread.",
    ("program", "token"),
)
def git_is_a_link(checkout: Path, places: Places) -> None:
    """.git leads to a repository of the agent's with hooks."""
    shutil.move(checkout / ".git", places.lair)
    (checkout / ".git").symlink_to(places.lair)
    configure(checkout, "core.fsmonitor", places.program())


@git_attack(
    "The policy denies .gitmodules; a submodule is never updated here.",
    ("program",),
    held_by_git="add, commit and push run no update command",
    refused=".gitmodules is a dependency manifest",
)
def git_modules(checkout: Path, places: Places) -> None:
    """.gitmodules with an update command and a URL that looks like an option."""
    (checkout / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = -u{places.program()}\n'
        f"\tupdate = !{places.program()}\n"
    )


@git_attack("Commits are made with --no-gpg-sign in a private repository.", ("program", "token"))
def gpg_program(checkout: Path, places: Places) -> None:
    """commit.gpgSign with gpg.program: the commit runs it."""
    configure(checkout, "commit.gpgSign", "true")
    configure(checkout, "gpg.program", places.program())


@git_attack(
    "Names come from this program alone, and stand behind refs/heads/.",
    ("program",),
    held_by_git="HEAD:refs/… names no branch",
)
def head_like_an_option(checkout: Path, places: Places) -> None:
    """HEAD and a packed ref are called --upload-pack=…: a program that reads names runs them."""
    name = f"refs/heads/--receive-pack={places.program()}"
    (checkout / ".git/packed-refs").write_text(f"{places.base} {name}\n")
    (checkout / ".git/HEAD").write_text(f"ref: {name}\n")


@git_attack("Changed files are staged in a private repository.", ("program", "token"))
def hook_post_index_change(checkout: Path, places: Places) -> None:
    """Write .git/hooks/post-index-change: a program that only stages files runs it."""
    hook(checkout, "post-index-change", places)


@git_attack(
    "No hook of the agent's .git ever runs: commits are made in a private repository.",
    ("program", "token"),
)
def hook_pre_commit(checkout: Path, places: Places) -> None:
    """Write .git/hooks/pre-commit, which git runs before it commits."""
    hook(checkout, "pre-commit", places)


@git_attack(
    "Pushed from a private repository without hooks, and with --no-verify.", ("program", "token")
)
def hook_pre_push(checkout: Path, places: Places) -> None:
    """Write .git/hooks/pre-push, which gets the URL and runs beside the token."""
    hook(checkout, "pre-push", places)


@git_attack("No ref of the agent's .git is moved.", ("program", "token"))
def hook_reference_transaction(checkout: Path, places: Places) -> None:
    """Write .git/hooks/reference-transaction: fetch, commit and push run it."""
    hook(checkout, "reference-transaction", places)


@git_attack("The configuration of the agent's .git is never read.", ("program", "token"))
def hooks_path(checkout: Path, places: Places) -> None:
    """Set core.hooksPath to a folder outside of the checkout with a prepare-commit-msg."""
    places.program("prepare-commit-msg")
    configure(checkout, "core.hooksPath", places.lair)


@git_attack("The index of the agent's .git is never read.", ("program", "other content"))
def monitor_valid(checkout: Path, places: Places) -> None:
    """The bit fsmonitor-valid in the index, and a monitor that reports no change."""
    monitor = places.program(then='printf "token\\0"')
    configure(checkout, "core.fsmonitor", monitor)
    configure(checkout, "core.fsmonitorHookVersion", 2)
    run_git(checkout, "checkout", "-q", "--", "shop.py")
    run_git(checkout, "update-index", "--fsmonitor")
    run_git(checkout, "update-index", "--fsmonitor-valid", "shop.py")
    (checkout / "shop.py").write_text("changed = True\n")
    shutil.rmtree(places.loot)
    places.loot.mkdir()


@git_attack(
    "Pushed to an http(s) URL only, with GIT_ALLOW_PROTOCOL for that scheme alone.",
    ("program", "token"),
)
def remote_helper(checkout: Path, places: Places) -> None:
    """An ext:: URL with protocol.ext.allow runs a command as the transport."""
    configure(checkout, "protocol.ext.allow", "always")
    configure(checkout, "remote.origin.pushurl", f"ext::{places.program()} %S")


@git_attack("Pushed to an http(s) URL only; nothing rewrites it.", ("program", "token"))
def ssh_command(checkout: Path, places: Places) -> None:
    """The URL becomes an ssh one, and core.sshCommand is a program of the agent's."""
    configure(checkout, "url.ssh://git@example.invalid/.pushInsteadOf", "http://")
    configure(checkout, "core.sshCommand", places.program())


@git_attack(
    "A path with a part `.git` is refused by name.",
    ("program", "token"),
    refused="sub/.git/HEAD: git reserves such names",
)
def submodule_config(checkout: Path, places: Places) -> None:
    """A nested .git with a configuration of its own: git status looks into it, and runs its
    monitor."""
    run_git(checkout, "init", "-q", "sub")
    run_git(checkout / "sub", "commit", "-q", "--allow-empty", "-m", "x")
    configure(checkout / "sub", "core.fsmonitor", places.program())


@git_attack("The diff is made in a private repository, with --no-textconv.", ("program", "token"))
def textconv(checkout: Path, places: Places) -> None:
    """diff.x.textconv runs as soon as somebody looks at the change."""
    configure(checkout, "diff.x.textconv", places.program(then='cat "$1"'))
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/attributes").write_text("* diff=x\n")


@git_attack("No configuration of the agent's is read.", ("program", "token"))
def worktree_config(checkout: Path, places: Places) -> None:
    """extensions.worktreeConfig makes git read .git/config.worktree too."""
    configure(checkout, "core.repositoryFormatVersion", 1)
    configure(checkout, "extensions.worktreeConfig", "true")
    configure(checkout, "core.fsmonitor", places.program(), file=".git/config.worktree")


@git_attack("The HOME of git here is a private folder.", ("program", "token"))
def xdg_config(checkout: Path, places: Places) -> None:
    """.config/git/config is read as well as .gitconfig: a credential helper."""
    keep = f"cat >> {places.loot}/stored"
    folder = places.home / ".config/git"
    folder.mkdir(parents=True)
    (folder / "config").write_text(f"[credential]\n\thelper = {places.program(then=keep)}\n")
