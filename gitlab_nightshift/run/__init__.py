"""The order of a run: what the supervisor does, and the processes that join several parts."""
