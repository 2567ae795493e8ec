"""How processes send their output to the redactor (``run/redactor_process.py``), which alone writes
the job log and the artifacts. Standard library only, also in what is imported.
"""
