"""A tree is given to the agents' user and back to its old owners."""

import os
import stat
import struct
from pathlib import Path

import pytest

from gitlab_nightshift.records.codec import decode_record, encode_record
from gitlab_nightshift.repository.tree_snapshot import TreeEntry, scan
from gitlab_nightshift.sandbox.tiers import SandboxUser
from gitlab_nightshift.sandbox.uid_tier import Owners, give, read_owners, take_back

AGENT = SandboxUser(60999, 60999, -1)
USER = (60999, 60999)
NOT_GIVEN = {"hard", "src/deep/tool", "src/ping", "null"}
"""A hard link to a file outside, a setuid program, one with a capability, a device."""


def scan_owners(root: Path) -> dict[str, tuple[int, int, int]]:
    return {path: (entry.uid, entry.gid, entry.mode) for path, entry in scan(root).items()}


def give_tree(root: Path) -> Owners:
    owners = read_owners(root, AGENT)
    give(root, owners.user)
    return owners


@pytest.fixture
def tree(tmp_path: Path, root: None) -> Path:
    top = tmp_path / "tree"
    (top / "src/deep").mkdir(parents=True)
    (top / "src/a.py").write_text("a")
    (top / "src/deep/tool").write_text("#!/bin/sh\n")
    (top / "src/deep/tool").chmod(0o4755)
    (top / "src/closed").mkdir(mode=0o000)
    (top / "src/shared").mkdir()
    (top / "src/shared").chmod(0o2775)
    (top / "link").symlink_to("src/a.py")
    (top / "out").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("v")
    os.mkfifo(top / "fifo")
    os.mknod(top / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.chown(top / "src/a.py", 1234, 4321)
    os.chown(top / "link", 1234, 4321, follow_symlinks=False)
    (tmp_path / "store").write_text("shared")
    os.link(tmp_path / "store", top / "hard")
    (top / "twin").write_text("both names are here")
    os.link(top / "twin", top / "src/twin")
    (top / "src/ping").write_text("with a capability")
    (top / "src/ping").chmod(0o755)
    os.setxattr(top / "src/ping", "security.capability", struct.pack("<IIIII", 2 << 24, 1, 0, 0, 0))
    return top


def test_everything_is_given_and_taken_back_exactly(tree: Path) -> None:
    before = scan_owners(tree)
    owners = give_tree(tree)
    now = scan_owners(tree)
    assert {path for path, (uid, gid, _) in now.items() if (uid, gid) != USER} == NOT_GIVEN
    assert {p: m for p, (_, _, m) in now.items()} == {p: m for p, (_, _, m) in before.items()}
    assert (tree.parent / "victim").stat().st_uid == 0
    take_back(tree, owners)
    assert scan_owners(tree) == before
    assert os.getxattr(tree / "src/ping", "security.capability")


def test_git_and_other_file_systems_keep_their_owners(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / "src/.git").write_text("gitdir: elsewhere")
    give_tree(tree)
    assert (tree / ".git").stat().st_uid == 0
    assert (tree / "src/.git").stat().st_uid == 60999


def test_new_files_get_the_usual_owner(tree: Path) -> None:
    owners = give_tree(tree)
    (tree / "new").write_text("n")
    os.chown(tree / "new", *USER)
    (tree / "new").chmod(0o4755)
    (tree / "src/a.py").unlink()
    take_back(tree, owners)
    status = (tree / "new").stat()
    assert (status.st_uid, status.st_gid) == (0, 0)
    assert not status.st_mode & stat.S_ISUID  # an agent's setuid program is none of root's


def test_an_agents_replacement_of_a_setuid_program_gets_no_rights(tree: Path) -> None:
    owners = give_tree(tree)
    (tree / "src/deep/tool").unlink()
    (tree / "src/deep/tool").write_text("the agent's")
    os.chown(tree / "src/deep/tool", *USER)
    (tree / "src/deep/tool").chmod(0o6755)
    take_back(tree, owners)
    status = (tree / "src/deep/tool").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o755)


def test_planted_links_lead_to_nothing_outside(tree: Path) -> None:
    """If hard links are not protected, an agent may link files of others, or its own elsewhere."""
    victim, folder = tree.parent / "victim", tree.parent / "folder"
    os.chown(victim, 1111, 1111)
    folder.mkdir()
    (folder / "inner").write_text("i")
    owners = give_tree(tree)
    os.link(victim, tree / "planted")
    (tree / "src/shared").rmdir()
    (tree / "src/shared").symlink_to(folder)
    mine = tree.parent / "mine"
    mine.write_text("an agent's file in another place")
    os.chown(mine, *USER)
    os.link(mine, tree / "its")
    take_back(tree, owners)
    assert victim.stat().st_uid == 1111
    assert (folder.stat().st_uid, (folder / "inner").stat().st_uid) == (0, 0)
    assert mine.stat().st_uid == 60999  # nothing outside becomes root's


def test_the_saved_owners_survive_a_kill(tree: Path) -> None:
    before = scan_owners(tree)
    note = encode_record(give_tree(tree))
    take_back(tree, decode_record(Owners, note))
    assert scan_owners(tree) == before
    for damaged in ("", "{}", "[]", '{"version": 2}', '{"version": 1, "others": 3}'):
        with pytest.raises(ValueError):
            decode_record(Owners, damaged.encode())


def test_a_partly_given_tree_is_taken_back(tree: Path) -> None:
    before = scan_owners(tree)
    owners = read_owners(tree, AGENT)
    for path in ("src", "src/a.py", "twin"):
        os.chown(tree / path, *USER)
    take_back(tree, owners)
    assert scan_owners(tree) == before


def test_file_names_that_are_not_utf8(tree: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    (tree / odd).write_text("x")
    os.chown(tree / odd, 7, 7)
    owners = decode_record(Owners, encode_record(give_tree(tree)))
    take_back(tree, owners)
    entry: TreeEntry = scan(tree)[odd]
    assert (entry.uid, entry.gid) == (7, 7)
