"""Secret files are removed while an agent works, and restored with all their attributes."""

from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.packed_paths import PathPacker
from gitlab_nightshift.repository.saved_state import SavedCheckout, unpack_blob_ids, unpack_index
from gitlab_nightshift.repository.tree_snapshot import scan
from gitlab_nightshift.stages.work import hidden_files
from gitlab_nightshift.stages.work.hidden_files import find_hidden_files, hide_files

FILES = (
    *(".env", ".env.local", "deploy/prod.env", ".envrc", "id_rsa", "tls/server.pem"),
    *("tests/key.pem", ".env.example", "shop.py", "vendor/cacert.pem", "config/secrets.yml"),
)
TRACKED = ("tests/key.pem", "deploy/prod.env", ".env.example", "shop.py")


def saved(root: Path, *, without_copy: str = "") -> SavedCheckout:
    """A checkout of these files, as it is saved before any agent."""
    for name in FILES:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"{name}: secret\n")
    copies = {name: name for name in FILES if name not in (*TRACKED, without_copy)}
    packer = PathPacker()
    for name in TRACKED:
        packer.add(name.encode(), bytes(27))
    packed = packer.finish()
    index, blobs = unpack_index(packed, 27), unpack_blob_ids(packed, 27)
    return SavedCheckout(scan(root), index, frozenset(), blobs, copies, root)


def test_env_files_and_untracked_secrets_are_hidden(tmp_path: Path) -> None:
    """Not a tracked file that a test may need, nor one that ships with a dependency."""
    assert find_hidden_files(saved(tmp_path)) == (
        *(".env", ".env.local", ".envrc", "config/secrets.yml", "deploy/prod.env", "id_rsa"),
        "tls/server.pem",
    )


def test_hidden_files_are_restored_with_mode_owner_and_times(tmp_path: Path) -> None:
    hidden = find_hidden_files(saved(tmp_path))
    (tmp_path / ".env").chmod(0o640)
    before = (tmp_path / ".env").stat()
    with hide_files(tmp_path, hidden):
        assert not [name for name in hidden if (tmp_path / name).exists()]
        (tmp_path / ".env").write_text("the agent's\n")
        (tmp_path / "id_rsa").symlink_to("/etc/passwd")
    after = (tmp_path / ".env").stat()
    assert (after.st_mode, after.st_uid, after.st_gid, after.st_mtime_ns) == (
        *(before.st_mode, before.st_uid, before.st_gid, before.st_mtime_ns),
    )
    for name in hidden:
        assert (tmp_path / name).read_text() == f"{name}: secret\n"
        assert not (tmp_path / name).is_symlink()


def test_nothing_is_restored_through_a_link_to_another_folder(tmp_path: Path) -> None:
    """Restoring the checkout creates the missing files again."""
    root, outside = tmp_path / "shop", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    hidden = find_hidden_files(saved(root))
    with hide_files(root, hidden):
        (root / "config").rmdir()
        (root / "config").symlink_to(outside)
    assert list(outside.iterdir()) == []
    assert (root / ".env").exists()


def test_hidden_files_are_restored_after_a_failure(tmp_path: Path) -> None:
    hidden = find_hidden_files(saved(tmp_path))
    with pytest.raises(ZeroDivisionError), hide_files(tmp_path, hidden):
        raise ZeroDivisionError
    assert (tmp_path / ".env").exists()


def test_a_secret_that_could_not_be_restored_after_a_kill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NightshiftError, match="id_rsa: by the name a secret") as caught:
        find_hidden_files(saved(tmp_path, without_copy="id_rsa"))
    assert caught.value.code is Code.POLICY_DENY


def test_too_many_secrets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_files, "MOST_FILES", 3)
    with pytest.raises(NightshiftError, match="7 files of"):
        find_hidden_files(saved(tmp_path))
