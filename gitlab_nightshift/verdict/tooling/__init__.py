"""The settings of tools as this program understands them: linters, type checkers, coverage, CI."""
