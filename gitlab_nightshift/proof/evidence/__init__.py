"""What only running can show of a change: run by this program itself, in the agents' sandbox."""
