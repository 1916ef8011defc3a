"""CloudFormation templates and user-data, produced on the laptop."""
