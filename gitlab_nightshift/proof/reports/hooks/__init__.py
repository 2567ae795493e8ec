"""Code that runs inside a project's test runner if that writes no report by itself; stdlib."""
