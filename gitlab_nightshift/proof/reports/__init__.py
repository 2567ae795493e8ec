"""Which tests a command ran and what became of each, by the reports of the project's runners."""
