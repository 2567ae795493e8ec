"""The commands, one file each; ``COMMANDS`` is the one list of them, in the order of ``--help``.

A command's module has ``register``, which adds it to the command line, and is imported at each
start: what it needs to run is imported by the function that runs it.
"""

from gitlab_nightshift.commands import (
    chat,
    check,
    config,
    delegate,
    demo,
    doctor,
    execute,
    init,
    patch,
    plan,
    providers,
    publish,
    report,
    run,
    work,
)

COMMANDS = (
    *(init, plan, work, publish, run, report, config, doctor, check),
    *(patch, execute, providers, delegate, chat, demo),
)
