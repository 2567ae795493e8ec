"""Code as this program understands it: functions, tests, assertions of a closed set of languages.

``sides(file)`` gives both sides of a changed file; see ``file_side.py`` for what a side knows.
"""
