"""The embedded local cloud: the same CLI, templates, user-data and agent on one machine."""
