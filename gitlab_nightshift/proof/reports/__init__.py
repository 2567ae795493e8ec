"""Which tests a command ran, and their outcomes, from the reports of the project's test runners."""
