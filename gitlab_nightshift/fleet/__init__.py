"""Many projects: which there are, which are due tonight, their start, what became of them."""
