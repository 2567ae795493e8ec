"""What the supervisor starts: one file for each process of a run, and the data they exchange."""
