"""Takes secrets out of everything that leaves a run (contract: "one redactor").

Needs nothing of the rest of the program but its errors. ``Redactor`` is for texts,
``refuse_secrets`` for what cannot be redacted.
"""

from gitlab_nightshift.redaction.patch_check import holds_secret, refuse_secrets
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.redaction.stream import REDACTED, Stream

__all__ = ["REDACTED", "Redactor", "Stream", "holds_secret", "refuse_secrets"]
