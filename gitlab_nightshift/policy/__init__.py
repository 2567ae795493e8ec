"""What a change may touch: pure functions of git's view of it and the settings."""
