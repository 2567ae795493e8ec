"""Work sees of a repository's configuration only how files are stored."""

from pathlib import Path

from gitlab_nightshift.repository.git import build_isolated_git, read_conversion_config
from gitlab_nightshift.repository.shown_config import read_visible_config
from tests.support.world import git

PATH = "/usr/bin:/bin:/usr/local/bin"
SECRET = "glpat-InTheConfiguration"


def test_only_settings_of_files_are_shown(tmp_path: Path) -> None:
    checkout, included = tmp_path / "checkout", tmp_path / "ext.conf"
    checkout.mkdir()
    git(checkout, "init", "-q", "--object-format=sha256")
    included.write_text(
        f'[http]\n\textraHeader = "{SECRET}"\n[core]\n\teol = crlf\n[core]\n\tpager = {SECRET}\n'
    )
    odd = 'a "quoted" \\ value'
    for key, value in {
        "include.path": str(included),
        "remote.origin.url": f"https://a:{SECRET}@gitlab.example/x.git",
        "remote.origin.promisor": "true",
        f"url.https://a:{SECRET}@gitlab.example/.insteadOf": "https://gitlab.example/",
        "credential.helper": f"!echo {SECRET}",
        "core.autocrlf": "input",
        "core.sshCommand": SECRET,
        "filter.lfs.clean": odd,
        "filter.lfs.required": "true",
    }.items():
        git(checkout, "config", key, value)
    pristine_git = build_isolated_git(tmp_path / "home", PATH)
    before = read_conversion_config(pristine_git, checkout)

    text = read_visible_config(pristine_git, checkout)
    assert SECRET not in text
    assert "gitlab.example" not in text
    (checkout / ".git/config").write_text(text)
    assert read_conversion_config(pristine_git, checkout) == before
    assert {"core.autocrlf": "input", "core.eol": "crlf"}.items() <= before.items()
    assert git(checkout, "config", "filter.lfs.clean").rstrip("\n") == odd
    assert git(checkout, "rev-parse", "--show-object-format").strip() == "sha256"


def test_an_unreadable_configuration_shows_nothing(tmp_path: Path) -> None:
    assert read_visible_config(build_isolated_git(tmp_path / "home", PATH), tmp_path) == ""
