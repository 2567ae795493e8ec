"""``nightshift chat``: a task from a chat becomes a pipeline, and its result a message.

    Discord → server (signature, who may) → runs (GitLab's pipelines) → Discord

Nothing is stored: what is under way is known to the running service alone.
"""
