"""Faults planted into product code, for tests to notice."""
