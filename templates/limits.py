"""AWS's limits that a job can hit, and the refusal that says what to shorten."""

from __future__ import annotations

from elastic_aws.errors import UsageError

USER_DATA_LIMIT_BYTES = 16_384
"""Largest user-data before base64. Source: EC2 User Guide, instance user data."""

TEMPLATE_LIMIT_BYTES = 51_200
"""Largest template that is passed in the call itself. Source: CloudFormation quotas."""

FILLED_IN_BYTES = 1_536
"""Kept free in the user-data for what CloudFormation fills in; a test fills in the longest values it may be given."""


def check_user_data(text: str) -> None:
    """Raises: UsageError when this text, once filled in, might be longer than EC2 takes."""
    allowed = USER_DATA_LIMIT_BYTES - FILLED_IN_BYTES
    if (size := len(text.encode())) > allowed:
        raise UsageError(
            "the job's arguments, environment, set-up commands and packages are too long",
            why=f"they make {size} bytes of user-data, {size - allowed} more than EC2 takes",
            hint="move them into a file of the code folder",
        )


def check_template(text: str) -> None:
    """Raises: UsageError when CloudFormation would not take the template in a call."""
    if (size := len(text.encode())) > TEMPLATE_LIMIT_BYTES:
        raise UsageError(
            "the job's template is too long",
            why=f"it has {size} bytes, and CloudFormation takes {TEMPLATE_LIMIT_BYTES}",
            hint="name fewer instance types, and move long texts into a file of the code folder",
        )
