"""One task given by another program: JSON in, JSON out, by the same means as a night."""
