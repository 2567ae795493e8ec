"""The folders of the programs that test commands start."""

from pathlib import Path

from gitlab_nightshift.commands.project_init import find_tool_folders


def test_a_version_managers_folder_is_found_and_no_shared_one(tmp_path: Path) -> None:
    home, checkout = tmp_path / "home", tmp_path / "shop"
    node, python = home / ".nvm/versions/node/v24", home / ".pyenv/versions/3.13"
    for program in (node / "bin/npm", python / "bin/python3.13", home / ".local/bin/tox"):
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to(python / "bin/python3.13")
    env = {"HOME": str(home), "PATH": f"{node}/bin:{home}/.local/bin:/usr/bin:/bin"}
    commands = ("npm test", ".venv/bin/python -m pytest", "tox", "sh test.sh", "not-there x")
    assert set(find_tool_folders(commands, checkout, env)) == {str(node), str(python)}
