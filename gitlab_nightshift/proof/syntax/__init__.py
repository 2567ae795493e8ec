"""Parsed code: functions, tests and assertions in the supported languages.

``file_side.py: read_sides`` returns a changed file before and after the change.
"""
