"""The `elastic-aws` command."""
