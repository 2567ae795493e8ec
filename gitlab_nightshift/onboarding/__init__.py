"""Onboarding of a project: detects its build, writes its files, sets it up in GitLab."""
