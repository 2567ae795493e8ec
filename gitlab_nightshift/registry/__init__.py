"""Closed tables that other parts look names up in: agents, red flags, categories, guarantees."""
