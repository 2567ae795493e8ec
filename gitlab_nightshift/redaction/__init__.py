"""Takes secrets out of everything that leaves a run (contract: "one redactor").

Ground: knows nothing of the rest of the program. ``Redactor`` is the one way in.
"""

from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.redaction.stream import REDACTED, Stream

__all__ = ["REDACTED", "Redactor", "Stream"]
