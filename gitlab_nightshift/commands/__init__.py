"""The commands, one module each, in the order of ``--help``: the night, the check of any change,
setup and reports; then the single stages, and the commands for other programs.

A command's module has ``register``, which adds it to the command line. Only the module of the given
command is imported, and it imports what it runs inside its functions, so that every start is fast.
"""

NIGHT = ("run", "check", "init", "doctor", "config", "report", "fleet", "demo")
ADVANCED = (
    *("plan", "work", "notary", "publish", "delegate", "patch", "execute", "chat", "providers"),
)
COMMANDS = (*NIGHT, *ADVANCED)
