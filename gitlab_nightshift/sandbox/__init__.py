"""The boundary around agents: tiers, the launcher, the proof. Start at :mod:`.tier_choice`."""
