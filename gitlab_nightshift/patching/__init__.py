"""Changes by a plain model: what it is shown, how it is asked, and how its answer is applied.

The agent ``patch`` and the commands ``patch`` and ``execute`` share these modules. ``inside.py``
runs in the sandbox with the standard library alone, so nothing here imports another library.
"""
