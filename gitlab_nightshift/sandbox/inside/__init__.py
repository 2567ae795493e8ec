"""What runs inside the sandbox: the launcher and its parts, standard library only.

These modules are started by ``python -I -S launcher.py`` for every process that is confined, so
they import as little as they can, and each other relatively: the launcher mounts this folder as a
package of its own and never loads the rest of the program.
"""
