"""Where tools keep credentials for a machine, and what in those files is secret."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gitlab_nightshift.host.sandbox import credential_files as module
from gitlab_nightshift.host.sandbox.credential_files import (
    CREDENTIALS,
    MOST_VALUES,
    SETTINGS,
    credential_files,
    machine_values,
)

MAVEN_SAMPLE = """<?xml version="1.0" encoding="UTF-8"?>
<!-- licence -->
<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"
          xsi:schemaLocation="http://maven.apache.org/SETTINGS/1.2.0 https://a/b.xsd">
  <pluginGroups>
    <!-- <pluginGroup>com.your.plugins</pluginGroup> -->
  </pluginGroups>
  <servers>
    <!--
    <server>
      <username>repouser</username>
      <password>repopwd</password>
    </server>
    -->
  </servers>
  <mirrors>
    <mirror>
      <id>maven-default-http-blocker</id>
      <mirrorOf>external:http:*</mirrorOf>
      <name>Pseudo repository to mirror external repositories initially using HTTP.</name>
      <url>http://0.0.0.0/</url>
      <blocked>true</blocked>
    </mirror>
  </mirrors>
</settings>
"""
Planted = Callable[[str], set[str]]


@pytest.fixture
def credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Which files are hidden where a credential file has this text."""

    def hidden(text: str) -> set[str]:
        (tmp_path / "file").write_text(text)
        monkeypatch.setattr(module, "CREDENTIALS", {"tool": (f"{tmp_path}/fil*",)})
        monkeypatch.setattr(module, "SETTINGS", {})
        return {Path(path).name for path in credential_files()}

    return hidden


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """The same for a file of plain settings, in a folder of the table."""

    def hidden(text: str) -> set[str]:
        (tmp_path / "conf.d").mkdir(exist_ok=True)
        (tmp_path / "conf.d/file").write_text(text)
        monkeypatch.setattr(module, "CREDENTIALS", {})
        monkeypatch.setattr(module, "SETTINGS", {"tool": (f"{tmp_path}/conf.d",)})
        return {Path(path).name for path in credential_files()}

    return hidden


@pytest.mark.parametrize(
    "text",
    [
        "[global]\nindex-url = https://reader:hunter22@mirror/simple\n",
        "[global]\nindex-url = https://mirror/simple\n",  # said to be hidden, so it is
        '{"auths": {}}',
        "<settings><servers><server/></servers><localRepository>/x</localRepository></settings>",
        "# password: glpat-abcdefghijklmnopqrst\n",
        MAVEN_SAMPLE.replace("repopwd", "correct-horse"),
        MAVEN_SAMPLE.replace("http://0.0.0.0/", "https://me:word@mirror/"),
        "\x00binary",
        "x" * 100_000,
    ],
)
def test_a_credential_file_is_hidden(credential: Planted, text: str) -> None:
    assert credential(text) == {"file"}


@pytest.mark.parametrize(
    "text", ["", "\n", "# a comment\n[global]\n; more\n", "{ }\n", MAVEN_SAMPLE]
)
def test_one_in_which_nothing_is_set_is_not(credential: Planted, text: str) -> None:
    """Maven would not start without the sample that it comes with."""
    assert credential(text) == set()


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ('[url "https://oauth2:hunter22@gitlab/"]\n\tinsteadOf = https://gitlab/\n', True),
        ("[safe]\n\tdirectory = *\n", False),
        ("deb https://user:secretpass@mirror/debian stable main\n", True),
        (
            "deb [signed-by=/usr/share/keyrings/node20.gpg] https://mirror/debian stable main\n",
            False,
        ),
        ("export REGISTRY_TOKEN=abcdefgh\n", True),
        ("export PATH=/opt/jdk-17.0.2/bin:$PATH\n", False),
    ],
)
def test_settings_are_hidden_where_a_secret_stands_in_them(
    setting: Planted, text: str, hidden: bool
) -> None:
    assert setting(text) == ({"file"} if hidden else set())


def test_a_link_names_what_it_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real.conf").write_text("token = x")
    (tmp_path / "pip.conf").symlink_to("real.conf")
    (tmp_path / "gone.conf").symlink_to("nowhere")
    names = (f"{tmp_path}/pip.conf", f"{tmp_path}/gone.conf", f"{tmp_path}/none/*/x")
    monkeypatch.setattr(module, "CREDENTIALS", {"pip": names})
    monkeypatch.setattr(module, "SETTINGS", {})
    assert credential_files() == {f"{tmp_path}/real.conf": "pip"}


def test_what_is_secret_in_them_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the table's files and in those of the home; a mirror's address is no secret."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://me:s3cret-word@mirror/simple\n"
    )
    (tmp_path / "gitconfig").write_text(
        "[http]\n\tauth-token = abcdef123\n\tproxy = http://proxy:80\n"
    )
    (tmp_path / ".netrc").write_text("machine a login me password at-home-77\n")
    (tmp_path / ".vault-token").write_text("hvs.CAESIabcdefgh1234\n")
    (tmp_path / ".gradle").mkdir()
    options = "org.gradle.jvmargs=-XX:MaxMetaspaceSize=512m\nrepoPassword=gradle-77\n"
    (tmp_path / ".gradle/gradle.properties").write_text(options)
    for folder in (".ssh", ".aws"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".aws/credentials").write_text("[me]\naws_secret_access_key = Aws/Secret77\n")
    key = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUA"
    frame = "-----{} OPENSSH PRIVATE KEY-----\n"
    (tmp_path / ".ssh/id").write_text(f"{frame.format('BEGIN')}{key}\n{frame.format('END')}")
    (tmp_path / ".ssh/known_hosts").write_text(f"gitlab ssh-ed25519 {key[:-3]}123\n" * 200)
    monkeypatch.setattr(module, "CREDENTIALS", {"pip": (f"{tmp_path}/pip.conf",)})
    monkeypatch.setattr(module, "SETTINGS", {"git": (f"{tmp_path}/gitconfig",)})
    found = machine_values({"HOME": str(tmp_path)})
    words = {"s3cret-word", "abcdef123", "at-home-77", "hvs.CAESIabcdefgh1234", "gradle-77"}
    words |= {"Aws/Secret77", key}
    assert set(found) == words, "a mirror's address and a memory option are no secrets"


def test_a_file_with_many_passwords_leaves_room_for_others(tmp_path: Path) -> None:
    lines = (f"machine host{n} login me password word-no-{n:04d}\n" for n in range(300))
    (tmp_path / ".netrc").write_text("".join(lines))
    (tmp_path / ".npmrc").write_text("//npm/:_authToken=npm_last_of_all\n")
    found = machine_values({"HOME": str(tmp_path)})
    assert {"npm_last_of_all", "word-no-0000"} <= set(found)
    assert len(found) <= MOST_VALUES


def test_the_table_names_places_of_the_system() -> None:
    for table in (CREDENTIALS, SETTINGS):
        for tool, paths in table.items():
            assert paths, tool
            assert all(path.startswith(("/etc/", "/usr/", "/opt/")) for path in paths), tool
