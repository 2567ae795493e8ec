"""Is a change honest and good: what this program finds out by itself, without an agent."""
