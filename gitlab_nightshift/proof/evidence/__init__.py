"""Evidence from running a change, which this program does itself, in the agents' sandbox."""
