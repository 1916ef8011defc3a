"""AWS's limits that a template can hit."""

from __future__ import annotations

USER_DATA_LIMIT_BYTES = 16_384
"""Largest user-data before base64. Source: EC2 User Guide, instance user data."""
TEMPLATE_LIMIT_BYTES = 51_200
"""Largest template that is passed in the call itself. Source: CloudFormation quotas."""
