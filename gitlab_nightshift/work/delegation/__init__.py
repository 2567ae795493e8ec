"""One given task for another program: JSON in, JSON out, through the machinery of a night."""
