"""The output of a run: other processes send the redactor, one way, what is logged and kept.

``channel`` is the pipe with both its ends; ``run/redactor_process.py`` holds the values of secrets
and alone writes the job log and the artifacts. Standard library only, imported modules included.
"""
