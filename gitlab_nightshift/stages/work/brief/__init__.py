"""The brief: what every bead is told of the repository, so that none pays to find it out again."""
