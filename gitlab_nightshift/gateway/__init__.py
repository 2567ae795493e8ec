"""The model gateway: agents get a placeholder and a loopback address, never the key."""
