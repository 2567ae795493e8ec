"""Is a change honest and good: what running shows of it."""
