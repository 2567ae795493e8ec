"""Variables of type file: the parts of their contents to redact."""

import json
import os
from pathlib import Path

import pytest

from gitlab_nightshift.job.job_secrets import read_secrets
from gitlab_nightshift.redaction.redactor import Redactor
from tests.support.runaway import bounded

BODY = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", "MzEfYyjiWA4R4/M2bS1"]
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *BODY, "-----END PRIVATE KEY-----", ""])
CERTIFICATE = KEY.replace("PRIVATE KEY", "CERTIFICATE")
KUBE = """\
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUMvakNDQWVhZ0F3
    server: https://k8s-01.prod.example.com:6443
  name: production-cluster
users:
- name: deployer
  user:
    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVB
    token: sesame-open
"""
ACCOUNT = json.dumps(
    {"type": "service_account", "client_email": "ci-01@acme.iam.example.com", "private_key": KEY},
    indent=2,
)
MAVEN = """\
<settings>
  <servers>
    <server><id>nexus</id></server>
    <username>deployer</username>
    <password>correct horse 9</password>
  </servers>
</settings>
"""
DOTENV = """\
# the settings of staging
NODE_ENV=production
DATABASE_PASSWORD="hunter2 and 3"
export API_TOKEN=qwertyuiop
SESSION=k3JvM2q9ZpLx84TnBw
DB_URL=postgres://shop:open-sesame@db.example.com:5432/shop
LOG_FILE=/var/log/app/2025/application.log
"""
NETRC = "machine git.example.com\n  login ci password opensesame\n"
PGPASS = "# ours\ndb.example.com:5432:shop:ci:open-sesame\ndb2.example.com:*:*:ci:other-sesame\n"
NPMRC = "registry=https://npm.example.com/\n//npm.example.com/:_authToken=abcdefghijkl\n"


def find_secrets(folder: Path, text: str, name: str = "CONFIG") -> set[str]:
    return set(read_secrets(write_file_variable(folder, text, name)).values)


def write_file_variable(folder: Path, text: str, name: str = "CONFIG") -> dict[str, str]:
    """The environment of a job with one variable of type file, as the runner makes it."""
    project = folder / "builds" / "acme" / "shop"
    files = project.with_name("shop.tmp")
    files.mkdir(parents=True, exist_ok=True)
    (files / name).write_text(text)
    return {"CI_PROJECT_DIR": str(project), name: str(files / name)}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("opensesame\n", {"opensesame"}),
        ("two words\n", {"two words"}),
        ("hvs.CAESIabcdefgh1234\n", {"hvs.CAESIabcdefgh1234"}),
        (KEY, set(BODY)),
        (CERTIFICATE, set()),
        (CERTIFICATE + CERTIFICATE + KEY.replace("PRIVATE", "EC PRIVATE"), set(BODY)),
        (
            KUBE,
            {"sesame-open", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVB"},
        ),
        (ACCOUNT, {KEY}),
        (MAVEN, {"correct horse 9"}),
        (DOTENV, {"hunter2 and 3", "qwertyuiop", "open-sesame", "k3JvM2q9ZpLx84TnBw"}),
        (NETRC, {"opensesame"}),
        (PGPASS, {"open-sesame", "other-sesame"}),
        (NPMRC, {"abcdefghijkl"}),
        ("", set()),
    ],
    ids=(
        "word phrase random key certificate both kube account maven dotenv netrc pgpass npmrc none"
    ).split(),
)
def test_the_secrets_in_a_file(tmp_path: Path, text: str, values: set[str]) -> None:
    assert find_secrets(tmp_path, text) == values


def test_the_whole_file_of_a_variable_with_a_secrets_name(tmp_path: Path) -> None:
    words = "a list\nof plain words\n"
    assert find_secrets(tmp_path, words, "MY_SECRET") == {words.strip()}
    assert find_secrets(tmp_path, words) == set()


def test_the_path_is_no_secret(tmp_path: Path) -> None:
    env = write_file_variable(tmp_path, KEY, "SSH_PRIVATE_KEY")
    assert env["SSH_PRIVATE_KEY"] not in read_secrets(env).values


def test_only_files_that_the_runner_wrote_are_read(tmp_path: Path) -> None:
    env = write_file_variable(tmp_path, "opensesame")
    for other in (
        {**env, "OTHER": env["CONFIG"], "CONFIG": ""},
        {**env, "CONFIG": f"{env['CONFIG']}/../CONFIG"},
        {"CONFIG": env["CONFIG"]},
        {**env, "CI_PROJECT_DIR": "relative"},
        {**env, "CI_PROJECT_DIR": "/"},
    ):
        assert read_secrets(other).values == ()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "large", "gone", "bytes"])
def test_special_large_and_missing_files_are_ignored(tmp_path: Path, kind: str) -> None:
    env = write_file_variable(tmp_path, "opensesame")
    path = Path(env["CONFIG"])
    path.rename(path.with_name("elsewhere"))
    if kind == "link":
        path.symlink_to("elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        path.write_text("opensesame" * 10_000)
    elif kind == "bytes":
        path.write_bytes(b"\xff\xfe\n\x00\n")
    assert read_secrets(env).values == ()


def test_values_are_bounded(tmp_path: Path) -> None:
    lines = "\n".join(f"VALUE_{n}=k3JvM2q9ZpLx84TnBw{n}" for n in range(1000))
    assert len(find_secrets(tmp_path, lines)) == 100
    with bounded():
        for piece in ("a", "a=", "<a ", "-----BEGIN CERTIFICATE-----"):
            text = piece * (60_000 // len(piece))
            find_secrets(tmp_path, f"{text}\n{text[:4000]}")


def test_a_key_is_redacted_in_all_forms(tmp_path: Path) -> None:
    redact = Redactor(read_secrets(write_file_variable(tmp_path, ACCOUNT)).values)
    assert BODY[0] not in redact(f"x {KEY} y") + redact(ACCOUNT) + redact(f"line {BODY[0]}")
    assert redact("apiVersion: v1 kind: Config service_account") == (
        "apiVersion: v1 kind: Config service_account"
    )
