"""The publish stage: check the bundle, make branch and commit, open the merge request."""
