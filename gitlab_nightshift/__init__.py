"""gitlab-nightshift: one small, proven merge request a night, or none, with the reason."""

__version__ = "0.1.0"
