"""``python -I -S inside.py SPEC_FILE``: the agent ``patch``, as the sandbox starts it.

Only this package's folder is readable there, not the folder above it: so the package is registered
by its path.
"""

import sys

if __name__ == "__main__":
    import os

    package = type(sys)("gitlab_nightshift")
    package.__path__ = [__file__.rpartition("/patching/")[0]]
    sys.modules["gitlab_nightshift"] = package
    agent = __import__("gitlab_nightshift.patching.patch_agent", fromlist=["main"])
    sys.exit(agent.main(sys.argv[1], os.environ))
