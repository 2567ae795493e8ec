"""Takes secrets out of everything that leaves a run (contract: "one redactor").

Needs nothing of the rest of the program but its errors. ``Redactor`` is for texts,
``refuse_secrets`` for what cannot be redacted.
"""
