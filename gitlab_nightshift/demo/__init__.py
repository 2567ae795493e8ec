"""The whole program on a laptop: an embedded GitLab stand-in and what the demo plays on it."""
