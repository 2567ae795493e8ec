"""Closed tables for lookups by name: agents, red flags, categories, guarantees."""
