"""The machine: processes, git, the tree of the checkout. Nothing else starts a process."""
