"""Changes by a plain model: what it is shown, how it is asked, and how its answer is applied.

The agent ``patch`` and the commands ``patch`` and ``execute`` share these rooms. ``inside.py`` is
run in the sandbox with the standard library alone, so nothing here imports another library.
"""
