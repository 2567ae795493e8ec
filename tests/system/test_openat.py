"""Files in a hostile tree are read, removed and written, never those outside."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.system.openat import (
    RefusedFileError,
    open_parent,
    put_link,
    read_regular,
    remove,
    remove_path,
    replace_file,
    write_all,
)
from tests.repository.tools import remove_all, write


def nest_folders(root: Path, depth: int) -> None:
    """Nest folders too deep for a path, as an agent could."""
    fd = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 100, dir_fd=fd)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def test_a_plain_file_is_read(tmp_path: Path) -> None:
    write(tmp_path, "a/b/c", b"\0\xff")
    assert read_regular(tmp_path, "a/b/c", 2) == b"\0\xff"


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a", "123")
    with pytest.raises(RefusedFileError, match="larger than 2 bytes"):
        read_regular(tmp_path, "a", 2)


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "secret/token", "s3cret")
    root = tmp_path / "tree"
    root.mkdir()
    (root / "file").symlink_to(tmp_path / "secret/token")
    (root / "folder").symlink_to(tmp_path / "secret")
    for path in ("file", "folder/token"):
        with pytest.raises(RefusedFileError):
            read_regular(root, path, 100)


def test_hard_links_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "secret", "s3cret")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/name").hardlink_to(tmp_path / "secret")
    with pytest.raises(RefusedFileError, match="hard links"):
        read_regular(tmp_path / "tree", "name", 100)
    assert read_regular(tmp_path / "tree", "name", 100, allow_links=True) == b"s3cret"


def test_special_files_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in ("fifo", "folder", "socket", "missing"):
            with pytest.raises(RefusedFileError):
                read_regular(tmp_path, path, 100)


def test_an_unreadable_file_is_read_and_keeps_its_mode(tmp_path: Path) -> None:
    file = write(tmp_path, "closed/file", "text", 0o000)
    assert read_regular(tmp_path, "closed/file", 100) == b"text"
    assert file.stat().st_mode & 0o777 == 0


def test_remove_handles_a_tree_too_deep_for_a_path(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    nest_folders(root, 1500)
    remove_path(root)
    assert not root.exists()


def test_remove_opens_closed_folders_and_follows_no_link(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/file", "x")
    write(tmp_path, "gone/a/b/file", "x")
    (tmp_path / "gone/a/link").symlink_to(tmp_path / "outside")
    (tmp_path / "gone/a/b").chmod(0)
    (tmp_path / "gone/a").chmod(0)
    (tmp_path / "gone").chmod(0)
    remove_path(tmp_path / "gone")
    assert not (tmp_path / "gone").exists() and outside.read_text() == "x"
    remove_path(tmp_path / "gone")


def test_a_link_planted_as_a_parent_is_replaced(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/file", "mine")
    root = tmp_path / "tree"
    root.mkdir()
    (root / "folder").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError), open_parent(root, "folder/file"):
        pass
    with (
        open_parent(root, "folder/file", create=True) as (fd, name),
        replace_file(name, fd) as file,
    ):
        write_all(file, b"new")
    assert outside.read_text() == "mine"
    assert (root / "folder/file").read_text() == "new" and not (root / "folder").is_symlink()


def test_anything_can_be_replaced(tmp_path: Path) -> None:
    write(tmp_path, "folder/sub/file", "x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with open_parent(tmp_path, "x") as (fd, _):
        for name in ("folder", "link"):
            with replace_file(name, fd) as file:
                write_all(file, b"new")
            assert (tmp_path / name).read_bytes() == b"new"
            assert not (tmp_path / name).is_symlink()
        put_link("folder", "to", fd, 1_000_000_000)
        assert (tmp_path / "folder").readlink() == Path("to")
        assert os.lstat(tmp_path / "folder").st_mtime == 1
        remove("folder", fd)
    assert {path.name for path in tmp_path.iterdir()} == {"link"}


def test_a_failed_replacement_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, "file", "old")
    with (
        pytest.raises(ValueError),
        open_parent(tmp_path, "file") as (fd, name),
        replace_file(name, fd),
    ):
        raise ValueError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"
    remove_all(tmp_path)


@pytest.mark.parametrize(("read_only", "said"), [(True, "PermissionError"), (False, "changed")])
def test_chmod_on_a_read_only_file_system_is_a_permission_error(
    tmp_path: Path, *, read_only: bool, said: str
) -> None:
    """Callers treat both alike."""
    code = (
        "import sys; from gitlab_nightshift.system.openat import set_mode\n"
        "try: set_mode(sys.argv[1], None, 0o600)\n"
        "except OSError as error: print(type(error).__name__)\n"
        "else: print('changed')\n"
    )
    option = "ro" if read_only else "rw"
    script = (
        f'mount -t tmpfs none "$1" && : > "$1/a" && mount -o remount,{option} "$1" && shift && "$@"'
    )
    inside = ["sh", "-c", script, "sh", str(tmp_path), sys.executable, "-c", code]
    done = subprocess.run(
        ["unshare", "--mount", *inside, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        pytest.skip(f"no file system can be mounted here: {done.stderr}")
    assert done.stdout == f"{said}\n"
