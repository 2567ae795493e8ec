"""The settings of a run, as one frozen record that knows the source of each value."""
