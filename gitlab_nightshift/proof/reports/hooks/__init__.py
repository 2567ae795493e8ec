"""What runs inside a project's own runner, where that writes no report by itself; stdlib."""
