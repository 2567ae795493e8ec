"""The commands, one file each; ``COMMANDS`` is the one list of them, in the order of ``--help``.

A command's module has ``register``, which adds it to the command line. A start imports that of its
own command: what this needs to run is imported by the function that runs it.
"""

COMMANDS = (
    *("init", "plan", "work", "notary", "publish", "run", "report", "config", "doctor", "check"),
    *("patch", "execute", "providers", "delegate", "chat", "demo"),
)
