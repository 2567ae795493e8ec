"""The service's settings: all errors at once, and no secret in them."""

import pytest

from gitlab_nightshift.chat.chat_settings import (
    build_signature_check,
    read_address,
    read_application,
    read_chat_settings,
)
from gitlab_nightshift.errors import Code, NightshiftError
from tests.chat.tools import ADA, BOT_TOKEN, EVE, GITLAB_TOKEN, GUILD, ROLE, environment


def errors(**changed: str) -> list[str]:
    with pytest.raises(NightshiftError) as caught:
        read_chat_settings(environment(**changed))
    assert caught.value.code is Code.CONFIG
    return caught.value.message.splitlines()


def test_the_repr_of_settings_shows_no_secret() -> None:
    settings = read_chat_settings(environment("https://git.example/lab/", GITLAB_REF="release/1"))
    assert (settings.gitlab_url, settings.project) == ("https://git.example/lab", "acme/shop")
    assert (settings.ref, settings.users, settings.roles) == (
        "release/1",
        frozenset({ADA}),
        frozenset(),
    )
    assert (settings.bot_token, settings.gitlab_token) == (BOT_TOKEN, GITLAB_TOKEN)
    assert BOT_TOKEN not in repr(settings) and GITLAB_TOKEN not in repr(settings)


def test_all_missing_variables_are_named_at_once() -> None:
    with pytest.raises(NightshiftError) as caught:
        read_chat_settings({})
    names = {line.split()[0] for line in caught.value.message.splitlines()}
    assert names >= set(environment()) - {"DISCORD_ALLOWED_USERS"}
    assert "nobody could use" in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DISCORD_APPLICATION_ID", "123456789012345678"),
        ("DISCORD_PUBLIC_KEY", "0f" * 32),
        ("DISCORD_BOT_TOKEN", "a.word"),
        ("GITLAB_URL", "https://git.example/lab/"),
        ("GITLAB_PROJECT", "group/name"),
        ("GITLAB_REF", "release/1"),
    ],
)
def test_a_value_contains_no_space(name: str, value: str) -> None:
    assert read_chat_settings(environment(**{name: value}))
    [error] = errors(**{name: f"{value} x"})
    assert error.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DISCORD_PUBLIC_KEY", "abc"),
        ("DISCORD_APPLICATION_ID", "me"),
        ("DISCORD_GUILD_ID", "١٢٣٤٥٦٧٨٩٠١٢٣٤٥٦"),
        ("DISCORD_BOT_TOKEN", "two words"),
        ("DISCORD_ALLOWED_USERS", f"{ADA}, ada"),
        ("DISCORD_ALLOWED_ROLES", "@everyone"),
        ("GITLAB_URL", "gitlab.com"),
        ("GITLAB_URL", "https://me:secret-word@gitlab.com"),
        ("GITLAB_PROJECT", "../users?x"),
        ("GITLAB_REF", "main\nother"),
    ],
)
def test_an_invalid_value_is_not_quoted(name: str, value: str) -> None:
    (line,) = errors(**{name: value})
    assert line.startswith(f"{name}: ") and value not in line and "secret-word" not in line


def test_named_users_and_roles_are_allowed_in_the_one_server() -> None:
    settings = read_chat_settings(environment(DISCORD_ALLOWED_ROLES=ROLE))
    none: frozenset[str] = frozenset()
    assert settings.allows(GUILD, ADA, none)
    assert settings.allows(GUILD, EVE, frozenset({ROLE}))
    assert not settings.allows(GUILD, EVE, none)
    assert not settings.allows("2" * 17, ADA, frozenset({ROLE}))
    assert not settings.allows("", ADA, none)


def test_registering_needs_no_gitlab() -> None:
    names = ("DISCORD_APPLICATION_ID", "DISCORD_GUILD_ID", "DISCORD_BOT_TOKEN")
    env = {name: environment()[name] for name in names}
    assert read_application(env).guild == GUILD
    with pytest.raises(NightshiftError, match="DISCORD_BOT_TOKEN is not set"):
        read_application({**env, "DISCORD_BOT_TOKEN": " "})


def test_an_address_is_host_and_port() -> None:
    assert read_address("0.0.0.0:80") == ("0.0.0.0", 80)
    assert read_address("[::1]:8080") == ("::1", 8080)
    for wrong in (
        "8080",
        ":80",
        "host:",
        "host:99999",
        "host:x",
        "[::1:80",
        "\udcff:1",
        "a\nb:1",
        "x" * 300 + ":1",
    ):
        with pytest.raises(NightshiftError, match="HOST:PORT"):
            read_address(wrong)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.exceptions", None)
    with pytest.raises(NightshiftError, match=r"the extra `chat`"):
        build_signature_check("00" * 32)
