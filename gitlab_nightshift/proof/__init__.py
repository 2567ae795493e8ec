"""Judges by itself, without an agent, whether a change is honest and good."""
