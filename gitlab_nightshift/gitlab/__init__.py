"""GitLab: the only code that uses python-gitlab."""
