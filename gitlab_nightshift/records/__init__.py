"""The records that the stages pass on: frozen, versioned, read and written as JSON."""
