"""``nightshift chat``: the service that takes tasks from a chat."""

import argparse
import sys

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift chat discord --register         register /coder with the server, once
  nightshift chat discord --listen 0.0.0.0:8080"""


def register(commands: "options.Commands") -> None:
    chat = commands.add_parser(
        "chat",
        help="take tasks from a chat, as a service",
        formatter_class=options.build_formatter,
    )
    services = chat.add_subparsers(metavar="discord", required=True)
    summary = "serve Discord's interactions endpoint for /coder; docs/chat-discord.md"
    discord = options.add_command(services, "discord", summary, serve_discord, examples=EXAMPLES)
    discord.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8080", help="default: 127.0.0.1:8080"
    )
    discord.add_argument(
        "--register", action="store_true", help="register /coder with the server, then exit"
    )


def serve_discord(args: argparse.Namespace, env: Env) -> int:
    """Serve until SIGINT or SIGTERM; with ``--register`` only register the command."""
    from gitlab_nightshift.chat import chat_settings

    if args.register:
        application = chat_settings.read_application(env)
        from gitlab_nightshift.chat.server import register as register_command

        register_command(application)
        print("/coder is registered")
        return 0
    settings = chat_settings.read_chat_settings(env)
    address = chat_settings.read_address(args.listen)
    from gitlab_nightshift.chat.server import serve
    from gitlab_nightshift.sandbox.privilege_drop import restrict_to
    from gitlab_nightshift.sandbox.process_places import find_rights
    from gitlab_nightshift.sandbox.process_table import CHAT

    restrict_to(find_rights(CHAT, {}, env))  # before it reads text that agents wrote
    serve(settings, address, lambda line: print(line, file=sys.stderr, flush=True))
    return 0
