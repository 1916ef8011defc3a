"""What an instance can learn about itself from its metadata service."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class RoleCredentials:
    """Temporary credentials of the instance's role."""

    role: str
    access_key: str
    secret_key: str
    token: str
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface that is attached to the instance."""

    id: str
    mac: str
    device_number: int
    address: str
    subnet: str
    subnet_block: str
    vpc: str
    vpc_block: str
    security_groups: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class InstanceFacts:
    """One instance as its metadata service shows it now.

    `profile_arn` and `credentials` are None without a role, `target_state` outside a group, `reclaimed_at` unless a
    spot interruption is announced, `rebalance_at` unless a rebalance is recommended.
    """

    id: str
    image: str
    type: str
    zone: str
    zone_id: str
    region: str
    account: str
    address: str
    host_name: str
    launch_index: int
    launched_at: datetime
    spot: bool
    user_data: bytes | None
    interfaces: tuple[Interface, ...]
    tags: dict[str, str] = field(default_factory=dict)
    profile_arn: str | None = None
    profile_id: str = ""
    credentials: RoleCredentials | None = None
    target_state: str | None = None
    reclaimed_at: datetime | None = None
    rebalance_at: datetime | None = None
