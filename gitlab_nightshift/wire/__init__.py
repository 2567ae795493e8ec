"""The output of a run: other processes send the redactor, one way, what is logged and kept.

``channel`` is the sender's side, ``redactor_process`` holds the values of secrets and alone writes
the job log and the artifacts. Standard library alone, with all that is imported.
"""
