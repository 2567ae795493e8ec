"""The commands, one module each, in the order of ``--help``: the night, the check of any change,
setup and reports; then the single stages, and the commands for other programs.

Each module has ``register``, which adds its command to the command line. To start fast, only the
module of the command that was called is imported, and its functions import what they need.
"""

NIGHT = ("run", "check", "init", "doctor", "config", "report", "fleet", "demo")
ADVANCED = tuple("plan work notary publish delegate patch execute chat providers".split())
COMMANDS = (*NIGHT, *ADVANCED)
