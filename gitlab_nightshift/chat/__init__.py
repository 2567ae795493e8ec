"""``nightshift chat``: a task from a chat becomes a pipeline, and its result a message.

    Discord → server (signature, permission) → pipeline_runs (GitLab's pipelines) → Discord

Nothing is stored: only the running service knows the current runs.
"""
