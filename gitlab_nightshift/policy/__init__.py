"""The rules for what a change may touch: pure functions of a change and the settings."""
