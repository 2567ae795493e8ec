"""The brief describes the repository to every bead, so that none pays to explore it again."""
