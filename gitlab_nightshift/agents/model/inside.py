"""``python -I -S inside.py SPEC_FILE``: the agents ``model`` and ``patch`` in the sandbox.

In the sandbox only this package's folder is readable, not the folder above it, so the package is
registered by its path; so is ``agents``, whose ``__init__.py`` needs libraries.
"""

import sys

if __name__ == "__main__":
    import os

    top = __file__.rpartition("/agents/")[0]
    for name, folder in (("gitlab_nightshift", top), ("gitlab_nightshift.agents", f"{top}/agents")):
        package = type(sys)(name)
        package.__path__ = [folder]
        sys.modules[name] = package
    program = __import__("gitlab_nightshift.agents.model.bead_program", fromlist=["main"])
    sys.exit(program.main(sys.argv[1], os.environ))
