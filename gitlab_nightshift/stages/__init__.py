"""The stages of a run: they exchange records, and never import each other."""
