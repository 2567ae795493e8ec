"""Code that runs inside the sandbox: the launcher and its parts, standard library only.

``python -I -S launcher.py`` loads these modules for every confined process, so they import as
little as possible, and each other relatively: the launcher makes this folder a package of its own
and never loads the rest of the program.
"""
