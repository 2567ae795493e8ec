"""Hall 2: runs agents, holds no GitLab credential. A plan goes in, a bundle comes out."""
