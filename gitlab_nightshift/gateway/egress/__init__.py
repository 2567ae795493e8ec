"""Egress: the CONNECT proxy through which agents reach named hosts."""
