"""The settings of a run: one frozen record that knows where each value came from."""
