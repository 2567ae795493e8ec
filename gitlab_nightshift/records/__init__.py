"""The records that stages pass to each other: frozen, versioned, stored as JSON."""
