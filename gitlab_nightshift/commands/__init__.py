"""The commands, one file each; this is the one list of them, in the order of ``--help``: what a
team uses that has nights, and what serves other programs or runs the stages one by one.

A command's module has ``register``, which adds it to the command line. A start imports that of its
own command: what this needs to run is imported by the function that runs it.
"""

NIGHT = ("init", "doctor", "run", "report", "fleet", "config", "check", "demo")
ADVANCED = (
    *("plan", "work", "notary", "publish", "delegate", "patch", "execute", "chat", "providers"),
)
COMMANDS = (*NIGHT, *ADVANCED)
