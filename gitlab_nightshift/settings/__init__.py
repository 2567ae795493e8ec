"""The settings of a run: one frozen record, with the source of each value."""
