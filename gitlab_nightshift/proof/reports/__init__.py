"""Which tests a command ran, with what outcome, by the reports of the project's runners."""
