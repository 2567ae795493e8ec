"""Removes secrets from everything that leaves a run.

``Redactor`` is for text, ``refuse_secrets`` for what cannot be redacted. Of the rest of the program
it imports only errors and text functions.
"""
