"""``python -m gitlab_nightshift`` is the same as the ``nightshift`` command."""

import sys

from gitlab_nightshift.cli import main

if __name__ == "__main__":
    sys.exit(main())
