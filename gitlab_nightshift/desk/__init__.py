"""What people run by hand. ``nightshift check``, and the chat service."""
