"""What running shows: canaries, old and new tests."""
