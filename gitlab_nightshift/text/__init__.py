"""Small functions over text, and patterns."""
