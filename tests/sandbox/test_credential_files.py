"""Files in which tools keep a machine's credentials, and the secrets in them."""

import base64
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox import credential_files as module
from gitlab_nightshift.sandbox.credential_files import (
    MOST_VALUES,
    TOOL_CREDENTIALS,
    TOOL_SETTINGS,
    find_credential_files,
    read_machine_secrets,
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
Table = dict[str, tuple[str, ...]]
SetTables = Callable[[Table, Table], None]


@pytest.fixture
def set_tables(monkeypatch: pytest.MonkeyPatch) -> SetTables:
    """Replace the tables of credentials and of settings."""

    def replace(credentials: Table, settings: Table) -> None:
        monkeypatch.setattr(module, "TOOL_CREDENTIALS", credentials)
        monkeypatch.setattr(module, "TOOL_SETTINGS", settings)

    return replace


def find_hidden(folder: Path, text: str) -> set[str]:
    """The names of the hidden files if the file of a table has this text."""
    (folder / "file").write_text(text)
    return {Path(path).name for path in find_credential_files()}


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
def test_a_credential_file_is_hidden(tmp_path: Path, set_tables: SetTables, text: str) -> None:
    set_tables({"tool": (f"{tmp_path}/fil*",)}, {})
    assert find_hidden(tmp_path, text) == {"file"}


@pytest.mark.parametrize(
    "text", ["", "\n", "# a comment\n[global]\n; more\n", "{ }\n", MAVEN_SAMPLE]
)
def test_a_file_that_sets_nothing_is_not_hidden(
    tmp_path: Path, set_tables: SetTables, text: str
) -> None:
    """Maven would not start without the sample that it comes with."""
    set_tables({"tool": (f"{tmp_path}/fil*",)}, {})
    assert find_hidden(tmp_path, text) == set()


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
def test_settings_with_a_secret_are_hidden(
    tmp_path: Path, set_tables: SetTables, text: str, hidden: bool
) -> None:
    """In a folder of the table."""
    set_tables({}, {"tool": (str(tmp_path),)})
    assert find_hidden(tmp_path, text) == ({"file"} if hidden else set())


def test_links_are_resolved(tmp_path: Path, set_tables: SetTables) -> None:
    (tmp_path / "real.conf").write_text("token = x")
    (tmp_path / "pip.conf").symlink_to("real.conf")
    (tmp_path / "gone.conf").symlink_to("nowhere")
    names = (f"{tmp_path}/pip.conf", f"{tmp_path}/gone.conf", f"{tmp_path}/none/*/x")
    set_tables({"pip": names}, {})
    assert find_credential_files() == {f"{tmp_path}/real.conf": "pip"}


def test_secrets_are_read_from_the_tables_and_home(tmp_path: Path, set_tables: SetTables) -> None:
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
    set_tables({"pip": (f"{tmp_path}/pip.conf",)}, {"git": (f"{tmp_path}/gitconfig",)})
    found = read_machine_secrets({"HOME": str(tmp_path)})
    words = {"s3cret-word", "abcdef123", "at-home-77", "hvs.CAESIabcdefgh1234", "gradle-77"}
    words |= {"Aws/Secret77", key}
    assert set(found) == words, "a mirror's address and a memory option are no secrets"


def test_a_file_with_many_passwords_leaves_room_for_others(tmp_path: Path) -> None:
    lines = (f"machine host{n} login me password word-no-{n:04d}\n" for n in range(300))
    (tmp_path / ".netrc").write_text("".join(lines))
    (tmp_path / ".npmrc").write_text("//npm/:_authToken=npm_last_of_all\n")
    found = read_machine_secrets({"HOME": str(tmp_path)})
    assert {"npm_last_of_all", "word-no-0000"} <= set(found)
    assert len(found) <= MOST_VALUES


def test_the_tables_name_system_paths() -> None:
    for table in (TOOL_CREDENTIALS, TOOL_SETTINGS):
        for tool, paths in table.items():
            assert paths, tool
            assert all(path.startswith(("/etc/", "/usr/", "/opt/")) for path in paths), tool


WORD = "Geheim-12"
ENCODED = base64.b64encode(f"me:{WORD}".encode()).decode()
AT_HOST = f"https://me:{WORD}@mirror/simple"
DOCKER = f'{{"auths": {{"registry": {{"auth": "{ENCODED}"}}}}}}'
HEADER = f'[http]\n\textraHeader = "Authorization: Bearer {WORD}"\n'
KUBECONFIG = f"users:\n- name: me\n  user:\n    token: {WORD}\n"
MANY = '"name": "value", ' * 400
TEXTS: dict[str, list[str]] = {
    "pip": [f"[global]\nindex-url = {AT_HOST}\n"],
    "uv": [f'[[index]]\nname = "ours"\nurl = "{AT_HOST}"\n'],
    "conda": [f"channels:\n  - {AT_HOST}\n", f"channels:\n  - https://conda/t/{WORD}/ours\n"],
    "npm": [f"//npm/:_authToken={WORD}\n", f"registry=https://npm/\n//npm/:_password={WORD}\n"],
    "yarn": [f'registry "https://npm/"\n"//npm.example.com/:_authToken" "{WORD}"\n'],
    "Maven": [
        f"<settings>\n<server>\n<id>a</id>\n<password>{WORD}</password>\n</server>\n</settings>\n",
        f"<settings><server><id>a</id><password>{WORD}</password></server></settings>\n",
    ],
    "sbt": [
        f"realm=Ours\nhost=mirror\nuser=me\npassword={WORD}\n",
        f'credentials += Credentials("Ours", "mirror", "me", "{WORD}")\n',
    ],
    "Cargo": [
        f'[registries.ours]\ntoken = "{WORD}"\n',
        f'[registries]\no = {{ token = "{WORD}" }}\n',
    ],
    "Composer": [
        f'{{"http-basic": {{"mirror": {{"username": "me", "password": "{WORD}"}}}}}}\n',
        f'{{\n  "http-basic": {{\n    "password": "{WORD}"\n  }}\n}}\n',
    ],
    "NuGet": [
        f'<configuration>\n<add key="ClearTextPassword" value="{WORD}" />\n</configuration>\n'
    ],
    "Docker": [
        DOCKER,
        f'{{\n  "auths": {{\n    "r": {{\n      "auth": "{ENCODED}"\n    }}\n  }}\n}}\n',
    ],
    "Kubernetes": [KUBECONFIG, f'{{"aadClientId": "me", "aadClientSecret": "{WORD}"}}\n'],
    "AWS": [f"[default]\naws_access_key_id = me\naws_secret_access_key = {WORD}\n"],
    "Google Cloud": [f'{{"client_id": "me", "client_secret": "{WORD}", "type": "user"}}\n'],
    "Azure": [
        f'{{"AccessToken": {{"home": {{"secret": "{WORD}", "realm": "a"}}}}}}\n',
        f'{{"IdToken": {{{MANY} "x": 1}}, "AccessToken": {{"secret": "{WORD}"}}}}\n',
    ],
    "s3cmd": [f"[default]\naccess_key = me\nsecret_key = {WORD}\n"],
    "rclone": [f"[ours]\ntype = sftp\nuser = me\npass = {WORD}\n"],
    "Vault": [f'vault {{\n  token = "{WORD}"\n}}\n', f"{WORD}\n"],
    "Helm": [f"repositories:\n- name: ours\n  password: {WORD}\n", DOCKER],
    "Terraform": [f'credentials "app" {{\n  token = "{WORD}"\n}}\n'],
    "GitLab CLI": [f"hosts:\n  gitlab:\n    token: {WORD}\n    api_host: gitlab\n"],
    "git": [f"{AT_HOST}\n", HEADER, f"[http]\n\textraHeader = PRIVATE-TOKEN: {WORD}\n"],
    "netrc": [f"machine a login me password {WORD}\n", f"machine a\nlogin me\npassword {WORD}\n"],
    "apt": [f"machine a login me password {WORD}\n", f"deb {AT_HOST} stable main\n"],
    "zypper": [f"username = me\npassword = {WORD}\n"],
    "mail": [f"account a\nhost a\npassword {WORD}\n", f"[smtp.example.com]:587 me:{WORD}\n"],
    "MySQL": [f"[client]\nuser = me\npassword = {WORD}\n"],
    "Gradle": [
        f"org.gradle.jvmargs=-Xmx1g\nrepoPassword={WORD}\n",
        f"maven {{ credentials {{ username = 'me'; password = '{WORD}' }} }}\n",
        f'maven {{\n  credentials {{\n    password "{WORD}"\n  }}\n}}\n',
    ],
    "Go": [f"GOPROXY={AT_HOST}\nGOFLAGS=-mod=mod\n"],
    "RubyGems": [f'---\nBUNDLE_GEMS__OURS__COM: "me:{WORD}"\n', f"---\n:sources:\n- {AT_HOST}\n"],
    "dnf": [f"[ours]\nbaseurl=https://mirror\npassword={WORD}\n"],
    "apk": [f"{AT_HOST}\nhttps://other/\n"],
    "wget": [
        f"http_user = me\nhttp_password = {WORD}\n",
        f'header = "Authorization: Basic {WORD}"\n',
    ],
    "databases": [f"[client]\nuser=me\npassword={WORD}\n", f"[ours]\nUID = me\nPWD = {WORD}\n"],
    "shells": [f"export A=b\nexport REGISTRY_TOKEN={WORD}\n", f"A=b\nSMTP_PASS='{WORD}'\n"],
    "Claude Code": [f'{{"env": {{"ANTHROPIC_API_KEY": "{WORD}"}}, "model": "x"}}\n'],
    "Codex": [f'[model_providers.a]\nname = "a"\nexperimental_bearer_token = "{WORD}"\n'],
}
"""Files of each tool, with a secret that looks like an ordinary word."""
WITHOUT_TEXT = {"Kerberos"}
"""A keytab is bytes, which no text holds."""


def test_the_secrets_of_every_tool_are_read(tmp_path: Path, set_tables: SetTables) -> None:
    """In files of either table."""
    assert set(TEXTS) == {*TOOL_CREDENTIALS, *TOOL_SETTINGS} - WITHOUT_TEXT
    missed, paths = [], (f"{tmp_path}/file",)
    for tool, texts in TEXTS.items():
        tables: list[tuple[Table, Table]] = []
        if tool in TOOL_CREDENTIALS:
            tables.append(({tool: paths}, {}))
        if tool in TOOL_SETTINGS:
            tables.append(({}, {tool: paths}))
        for (credentials, settings), text in itertools.product(tables, texts):
            set_tables(credentials, settings)
            (tmp_path / "file").write_text(text)
            if WORD not in read_machine_secrets({"HOME": str(tmp_path)}):
                missed.append((tool, text))
    assert missed == []


@pytest.mark.parametrize(
    ("name", "text", "known"),
    [
        ("npmrc", "cafile=/etc/ssl/certs/ca-certificates.crt\n", set()),
        ("settings.xml", MAVEN_SAMPLE, set()),
        (
            "settings.xml",
            MAVEN_SAMPLE.replace("repopwd", "proxypass").replace(
                "repouser", "optional; leave empty"
            ),
            set(),
        ),
        ("settings.xml", MAVEN_SAMPLE.replace("repopwd", "correct-horse"), {"correct-horse"}),
        (
            "settings-security.xml",
            "<settingsSecurity>\n<master>{jSMOWnoPFgsHVpMvz5VrIt5kRbzGpI8u}</master>\n",
            {"jSMOWnoPFgsHVpMvz5VrIt5kRbzGpI8u"},
        ),
        (".vault-token", "hvs.CAESIJ-abc==\n", {"hvs.CAESIJ-abc=="}),
    ],
)
def test_only_secrets_are_read_from_a_tools_file(
    tmp_path: Path, set_tables: SetTables, name: str, text: str, known: set[str]
) -> None:
    (tmp_path / name).write_text(text)
    set_tables({"npm": (f"{tmp_path}/{name}",)}, {})
    assert set(read_machine_secrets({"HOME": "/nowhere"})) == known
