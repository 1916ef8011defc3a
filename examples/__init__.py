"""What the project shows itself with; each is run by a test or by `make demo`."""
