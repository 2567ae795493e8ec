"""The work stage: runs agents, holds no GitLab credential. A plan goes in, a bundle comes out."""
