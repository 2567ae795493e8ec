"""This program does not load files that an agent writes, unless its start is not sealed."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gitlab_nightshift import sealed_start
from gitlab_nightshift.repository.git import list_setting_files, with_machine_config
from gitlab_nightshift.sandbox.proof import list_named_folders, try_own_code

ROOT = Path(__file__).parents[2]
TRY = """
import json, os, sys
from pathlib import Path
import functools
from gitlab_nightshift.repository.git import list_setting_files, with_machine_config
from gitlab_nightshift.sandbox import proof
from gitlab_nightshift.sandbox.proof import try_own_code
if not sys.flags.isolated:
    proof.build_python_command = lambda *arguments: [sys.executable, *arguments]
folder, private = Path(sys.argv[1]), Path(sys.argv[2])
git = with_machine_config(private, "/usr/bin:/bin", Path(os.environ.get("HOME", "/")))
rows = try_own_code([folder], functools.partial(list_setting_files, git))
print(json.dumps([[name.replace(str(folder), "it"), how] for name, how in rows]))
"""


@pytest.mark.parametrize("is_sealed", [True, False])
def test_planted_files_are_loaded_only_without_a_sealed_start(
    tmp_path: Path, is_sealed: bool
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / ".gitconfig").write_text("[user]\n\tname = Ada\n")
    env = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "PYTHONPATH": f"{folder}:{ROOT}",
        "LD_LIBRARY_PATH": str(folder),
        "HOME": str(folder),
    }
    flags = []
    if is_sealed:
        paths = repr([str(ROOT), *sealed_start.find_installation()])
        flags = ["-I", "-S"]
        env = sealed_start.build_own_environment(env, [folder])
        code = f"import sys; sys.path += {paths}\n{TRY}"
    else:
        code = TRY
    command = [sys.executable, *flags, "-c", code, str(folder), str(tmp_path / "git")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(done.stdout))
    assert set(found) == {
        *("load a module of it", "load a compiled module of it", "load a .pth file of it"),
        *("load a library of it", "load a program of it", "read git's settings in it"),
    }
    assert [name for name, how in found.items() if bool(how) == is_sealed] == []
    left = {path.name for path in folder.iterdir()}
    assert left - {"__pycache__"} == {".gitconfig"}, "which is what an import leaves"


def test_missing_folders_and_broken_settings_raise_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[broken\n")
    git = with_machine_config(tmp_path / "git", "/usr/bin:/bin", home)
    listing = functools.partial(list_setting_files, git)
    assert list(try_own_code([tmp_path / "gone"], listing)) == []
    assert dict(try_own_code([home], listing))[f"read git's settings in {home}"] == ""


def test_the_named_folders_lie_in_the_checkout(tmp_path: Path) -> None:
    top = tmp_path / "shop"
    (top / "src").mkdir(parents=True)
    (top / "elsewhere").symlink_to("/usr")
    env = {"PYTHONPATH": f"{top}/src:{top}/gone:{top}/elsewhere:src:/usr", "OTHER": f"{tmp_path}"}
    assert list_named_folders(env, top) == (top, top / "src")
