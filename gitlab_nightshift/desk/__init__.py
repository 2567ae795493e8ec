"""What people run by hand. So far: ``nightshift doctor``."""
