"""The chat service's settings, from its own environment; all errors are reported at once."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.text.printable_text import make_printable

SNOWFLAKE = r"[0-9]{15,22}"
"""An id of Discord: 64 bits in decimal (Discord's API reference, "Snowflakes")."""


@dataclass(frozen=True)
class ValueForm:
    """The valid values of a variable, in words and as a pattern."""

    expected: str
    pattern: str


_ID = ValueForm("an id of Discord, 15 to 22 digits", SNOWFLAKE)
_URL = ValueForm("an http(s) address without credentials", r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
_KEY = ValueForm(  # of Ed25519
    "the public key of the application, 64 hexadecimal digits", r"[0-9a-fA-F]{64}"
)
_WORD = ValueForm("one word without spaces", r"[\x21-\x7e]+")
_PROJECT = ValueForm("a project's path, such as group/name, or its number", r"[\w.][\w./-]*")
_BRANCH = ValueForm("a branch", r"[^\s\x00-\x1f:?*\[\\^~]*")  # git check-ref-format


@dataclass(frozen=True)
class ChatSettings:
    """The service's Discord application and server (guild), its GitLab project, and who may use it.
    Its repr shows no secret."""

    application_id: str
    public_key: str
    guild: str
    users: frozenset[str]
    roles: frozenset[str]
    gitlab_url: str
    project: str
    ref: str
    bot_token: str = field(repr=False)
    gitlab_token: str = field(repr=False)

    def allows(self, guild: str, user: str, roles: frozenset[str]) -> bool:
        """True if a member of the server ``guild`` may start and approve tasks."""
        return guild == self.guild and (user in self.users or bool(roles & self.roles))


@dataclass(frozen=True)
class DiscordApplication:
    """The settings for registering the command at Discord."""

    application_id: str
    guild: str
    bot_token: str = field(repr=False)


def read_chat_settings(env: Mapping[str, str]) -> ChatSettings:
    """The settings of the service. Raises ``E_CONFIG`` with every error, one per line."""
    reader = _VariableReader(env)
    settings = ChatSettings(
        application_id=reader.read_value("DISCORD_APPLICATION_ID", _ID),
        public_key=reader.read_value("DISCORD_PUBLIC_KEY", _KEY),
        guild=reader.read_value("DISCORD_GUILD_ID", _ID),
        users=reader.read_ids("DISCORD_ALLOWED_USERS"),
        roles=reader.read_ids("DISCORD_ALLOWED_ROLES"),
        gitlab_url=reader.read_value("GITLAB_URL", _URL).rstrip("/"),
        project=reader.read_value("GITLAB_PROJECT", _PROJECT),
        ref=reader.read_value("GITLAB_REF", _BRANCH, optional=True),
        bot_token=reader.read_value("DISCORD_BOT_TOKEN", _WORD),
        gitlab_token=reader.read_value("GITLAB_TOKEN", _WORD),
    )
    if not settings.users | settings.roles:
        reader.errors.append(
            "DISCORD_ALLOWED_USERS and DISCORD_ALLOWED_ROLES are empty: nobody could use the"
            " command; name users or roles by their ids, with commas between them"
        )
    reader.raise_errors()
    return settings


def read_application(env: Mapping[str, str]) -> DiscordApplication:
    """The settings for ``--register``. Raises ``E_CONFIG`` with every error, one per line."""
    reader = _VariableReader(env)
    application = DiscordApplication(
        application_id=reader.read_value("DISCORD_APPLICATION_ID", _ID),
        guild=reader.read_value("DISCORD_GUILD_ID", _ID),
        bot_token=reader.read_value("DISCORD_BOT_TOKEN", _WORD),
    )
    reader.raise_errors()
    return application


class _VariableReader:
    """Reads variables and collects errors about them, which quote no value."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.errors: list[str] = []

    def read_value(self, name: str, form: ValueForm, *, optional: bool = False) -> str:
        value = self._env.get(name, "").strip()
        if not value and not optional:
            self.errors.append(f"{name} is not set: {form.expected} is expected")
        elif not re.fullmatch(form.pattern, value):
            self.errors.append(f"{name}: {form.expected} is expected")
        return value

    def read_ids(self, name: str) -> frozenset[str]:
        words = [word for word in re.split(r"[,\s]+", self._env.get(name, "")) if word]
        if any(not re.fullmatch(SNOWFLAKE, word) for word in words):
            self.errors.append(f"{name}: ids of Discord are expected, with commas between them")
        return frozenset(words)

    def raise_errors(self) -> None:
        if self.errors:
            raise build_config_error("\n".join(self.errors))


def read_address(text: str) -> tuple[str, int]:
    """``host:port`` as two values. Raises ``E_CONFIG``."""
    name, ipv6 = r"[\w-]{1,63}(?:\.[\w-]{1,63})*", r"\[[\da-fA-F:.]+\]"
    match = re.fullmatch(rf"({name}|{ipv6}):([0-9]{{1,5}})", text, re.ASCII)
    if not match or int(match[2]) > 65535:
        shown = make_printable(text, "?")
        raise build_config_error(f"--listen {shown}: expected HOST:PORT, such as 127.0.0.1:8080")
    return match[1].strip("[]"), int(match[2])


def build_signature_check(public_key: str) -> Callable[[bytes, bytes], bool]:
    """A function that checks a signature (64 bytes) of a message, with the public key (hex).

    Raises ``E_CONFIG`` if the extra is not installed, or the key is invalid.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise build_config_error("the chat needs the extra `chat`: docs/chat-discord.md") from None
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    except ValueError:
        raise build_config_error(f"DISCORD_PUBLIC_KEY: {_KEY.expected} is expected") from None

    def check_signature(signature: bytes, message: bytes) -> bool:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return check_signature
