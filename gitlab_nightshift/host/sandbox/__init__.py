"""The boundary around agents: tiers, the launcher, the proof. See :mod:`.probe` for the way in."""
