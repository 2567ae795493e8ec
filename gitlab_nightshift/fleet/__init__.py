"""Many projects: found, chosen, started and reported from a control project."""
