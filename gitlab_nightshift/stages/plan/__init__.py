"""The plan stage: reads GitLab and the checkout before any agent exists. Its product is a plan."""
