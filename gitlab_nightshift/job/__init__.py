"""The GitLab job that a run is started in: its facts and its secrets. Standard library only."""
