"""What this program finds out itself about a change."""
