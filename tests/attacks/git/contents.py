"""Git attacks that change what is pushed, or hide it."""

import os
import shutil
from pathlib import Path

from tests.attacks.checkout_attacks import git_attack
from tests.attacks.git_world import Places, blob_name, configure, hidden, plant, run_git


@git_attack(
    "Blobs are hashed and written in a private repository that borrows from the real one alone.",
    ("change lost",),
)
def alternates(checkout: Path, places: Places) -> None:
    """objects/info/alternates lends a blob with the right name and other bytes: what is added is
    taken for there already, and is not what is pushed."""
    borrowed = places.lair / "objects"
    plant(borrowed, blob_name((checkout / "shop.py").read_bytes()))
    info = checkout / ".git/objects/info"
    info.mkdir(exist_ok=True)
    with (info / "alternates").open("a") as file:
        file.write(f"{borrowed}\n")


@git_attack("The index of the agent's .git is never read.", ("other content",))
def assume_unchanged(checkout: Path, places: Places) -> None:
    """The bit assume-unchanged in the index: the change of that file is lost."""
    run_git(checkout, "update-index", "--assume-unchanged", "shop.py")


@git_attack(
    "A name that is .git anywhere is refused by name.",
    ("change lost",),
    refused="git~1/hooks/post-checkout: git reserves such names",
)
def dot_git_by_short_name(checkout: Path, places: Places) -> None:
    """A folder git~1 with a hook."""
    hidden(checkout, "git~1")


@git_attack(
    "A name that is .git anywhere is refused by name.",
    ("change lost",),
    refused=".GIT/hooks/post-checkout: git reserves such names",
)
def dot_git_in_capitals(checkout: Path, places: Places) -> None:
    """A folder .GIT with a hook: harmless here, run on a Mac or Windows machine."""
    hidden(checkout, ".GIT")


@git_attack(
    "A name that is .git anywhere is refused by name.",
    ("other content",),
    refused="/hooks/post-checkout: git reserves such names",
)
def dot_git_with_an_invisible_sign(checkout: Path, places: Places) -> None:
    """A folder .git<U+200C> with a hook: macOS takes it for .git."""
    hidden(checkout, ".git\u200c")


@git_attack(
    "History is read from the real .git before an agent starts.",
    ("other history",),
    held_by_git="grafts change what log shows, not the objects that are pushed",
)
def grafts(checkout: Path, places: Places) -> None:
    """.git/info/grafts gives the base commit other parents."""
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/grafts").write_text(f"{places.base}\n")


@git_attack(
    "The parent is the base commit that was checked out before the agent.", ("other history",)
)
def head_elsewhere(checkout: Path, places: Places) -> None:
    """The night's commit would stand on top of another one, and bring it along."""
    evil = run_git(checkout, "commit-tree", f"{places.base}^{{tree}}", "-p", places.base, "-m", "x")
    (checkout / ".git/HEAD").write_text(f"{evil}\n")


@git_attack("The index of the agent's .git is never read.", ("other content",))
def index_with_a_stowaway(checkout: Path, places: Places) -> None:
    """An entry with skip-worktree and without a file: it is committed, and nobody verified it."""
    blob = run_git(checkout, "hash-object", "-w", "--stdin", stdin=b"evil")
    run_git(checkout, "update-index", "--add", "--cacheinfo", f"100644,{blob},conftest.py")
    run_git(checkout, "update-index", "--skip-worktree", "conftest.py")


@git_attack("The list is the real one, from before the agent.", ("other content",))
def info_exclude(checkout: Path, places: Places) -> None:
    """.git/info/exclude hides new files from `git add`: a part of the change is lost."""
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/exclude").write_text("test_*\n")


@git_attack(
    "The index of the agent's .git is never read.",
    ("other content",),
    held_by_git="add -A gives the entries their content",
)
def intent_to_add(checkout: Path, places: Places) -> None:
    """`git add -N` for new files: a program that commits what is staged loses them."""
    run_git(checkout, "add", "-N", "test_discount.py")


@git_attack(
    "What is put into the tree for Verify is what git gives back for the captured tree.",
    ("other content",),
)
def line_ends(checkout: Path, places: Places) -> None:
    """core.autocrlf stores other bytes than those that were verified."""
    (checkout / "shop.py").write_bytes(b"x = 1\r\n")
    configure(checkout, "core.autocrlf", "input")


@git_attack(
    "Names are separated by NUL everywhere.",
    ("other content",),
    held_by_git="add -A reads no names",
    also=("x\nM  shop.py", "--all", "a\x1b[2K\rb"),
)
def names_with_newlines(checkout: Path, places: Places) -> None:
    r"""A file `x\nM  shop.py`: a program that reads names line by line sees another one."""
    for name in ("x\nM  shop.py", "--all", "a\x1b[2K\rb"):
        (checkout / name).write_text("odd\n")


@git_attack(
    "Blobs are hashed and written in a private repository that never saw the agent's objects.",
    ("change lost",),
)
def object_substituted(checkout: Path, places: Places) -> None:
    """A loose object with the name of the coming blob, and other bytes in it."""
    plant(checkout / ".git/objects", blob_name((checkout / "shop.py").read_bytes()))


@git_attack(
    "The agent's objects are its own; the real ones lie in the real .git.", ("change lost",)
)
def objects_gone(checkout: Path, places: Places) -> None:
    """The packs of .git are cut short: nothing can be read or pushed from it."""
    for pack in (checkout / ".git/objects").rglob("*.pack"):
        pack.chmod(0o644)
        os.truncate(pack, 20)
    for loose in (checkout / ".git/objects").glob("[0-9a-f][0-9a-f]"):
        shutil.rmtree(loose)


@git_attack("One fixed refspec, push.followTags=false, no ref of the agent's.", ("other refs",))
def push_follow_tags(checkout: Path, places: Places) -> None:
    """push.followTags pushes annotated tags that nobody asked for; a tag may start a release."""
    configure(checkout, "push.followTags", "true")
    run_git(checkout, "tag", "-a", "-m", "x", f"v{checkout.parent.parent.name}", places.base)


@git_attack("No option is sent, and no configuration of the agent's is read.", ("push options",))
def push_options(checkout: Path, places: Places) -> None:
    """push.pushOption sends GitLab's merge_request.* options along with the push."""
    configure(checkout, "push.pushOption", "merge_request.create")
    configure(checkout, "push.pushOption", "merge_request.merge_when_pipeline_succeeds")


@git_attack(
    "GIT_NO_REPLACE_OBJECTS everywhere, and no ref of the agent's is known.", ("not shown",)
)
def replace_refs(checkout: Path, places: Places) -> None:
    """refs/replace shows the new file where the old one was: the diff is empty, the push is not."""
    (checkout / "shop.py").write_text("import os  # and something evil\n")
    new = run_git(checkout, "hash-object", "-w", "shop.py")
    run_git(checkout, "replace", f"{places.base}:shop.py", new)


@git_attack("The list is copied before an agent starts.", ("change lost",))
def shallow(checkout: Path, places: Places) -> None:
    """.git/shallow holds rubbish: every git command fails."""
    (checkout / ".git/shallow").write_text("rubbish\n")


@git_attack("The index of the agent's .git is never read.", ("other content",))
def skip_worktree(checkout: Path, places: Places) -> None:
    """The bit skip-worktree in the index: the change of that file is lost."""
    run_git(checkout, "update-index", "--skip-worktree", "shop.py")


@git_attack("The index and the settings of the agent's .git are never read.", ("change lost",))
def sparse_checkout(checkout: Path, places: Places) -> None:
    """core.sparseCheckout makes `git add` leave out what is not listed."""
    configure(checkout, "core.sparseCheckout", "true")
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/sparse-checkout").write_text("/docs/\n")
    run_git(checkout, "update-index", "--skip-worktree", "shop.py")


@git_attack(
    "A path with a part `.git` is refused by name.",
    ("other content",),
    refused="vendor/.git/HEAD: git reserves such names",
)
def submodule_hidden(checkout: Path, places: Places) -> None:
    """A nested repository becomes a commit link in the tree: nobody sees its files."""
    run_git(checkout, "init", "-q", "vendor")
    run_git(checkout / "vendor", "commit", "-q", "--allow-empty", "-m", "x")


@git_attack("The files are read below the checkout, whatever .git says.", ("other content",))
def work_tree(checkout: Path, places: Places) -> None:
    """core.worktree makes `git add` take the files of HOME, secrets among them."""
    (places.home / "id_rsa").write_text("a private key")
    configure(checkout, "core.bare", "false")
    configure(checkout, "core.worktree", places.home)


@git_attack("The HOME of git here is a private folder.", ("other content",))
def xdg_ignore(checkout: Path, places: Places) -> None:
    """.config/git/ignore hides new files from `git add`: a part of the change is lost."""
    (places.home / ".config/git").mkdir(parents=True)
    (places.home / ".config/git/ignore").write_text("test_*\n")
