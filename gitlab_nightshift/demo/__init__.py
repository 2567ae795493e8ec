"""The whole program on a laptop: an embedded GitLab stand-in, and the demo that runs on it."""
