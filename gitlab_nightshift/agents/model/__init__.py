"""A model behind Chat Completions as an agent: its tools, its loop, and blocks as an answer.

The agents ``model`` and ``patch`` and the commands ``patch`` and ``execute`` share these modules.
``inside.py`` runs in the sandbox with the standard library alone, so nothing here imports another
library.
"""
