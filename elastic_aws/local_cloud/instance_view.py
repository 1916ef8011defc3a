"""An instance's facts, gathered from what EC2, IAM and Auto Scaling know of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from elastic_aws.local_cloud.ec2 import LocalEc2, user_data_of
from elastic_aws.local_cloud.instance_facts import InstanceFacts, Interface, RoleCredentials

CREDENTIAL_LIFE = timedelta(hours=6)
"""How long an instance role's credentials hold, about as on EC2."""

RENEWED_BEFORE_END = timedelta(minutes=15)
"""New credentials are there at least this long before the old ones end. botocore renews 10 to 15 minutes before."""


class InstanceView:
    """Describes instances; remembers the credentials it gave out. Called with the cloud's lock held.

    `target_state` answers what Auto Scaling wants the instance to be, None outside groups.
    """

    def __init__(self, *, target_state: Callable[[str, str], str | None]) -> None:
        self._target_state = target_state
        self._credentials: dict[str, RoleCredentials] = {}

    def facts(self, ec2: LocalEc2, instance: Any) -> InstanceFacts:
        """The instance as it is now."""
        profile = self._profile(ec2, instance)
        shows_tags = instance.metadata_options.instance_metadata_tags == "enabled"
        tags = {tag["key"]: tag["value"] for tag in instance.get_tags()} if shows_tags else {}
        subnet = ec2.get_subnet(instance.subnet_id)
        return InstanceFacts(
            id=instance.id,
            image=instance.image_id,
            type=instance.instance_type,
            zone=instance.placement.zone,
            zone_id=subnet.availability_zone_id,
            region=ec2.region_name,
            account=ec2.account_id,
            address=instance.private_ip_address,
            host_name=instance.private_dns_name,
            launch_index=int(instance.ami_launch_index),
            launched_at=instance.launch_time,
            spot=instance.lifecycle == "spot",
            user_data=user_data_of(instance),
            interfaces=tuple(_interface(ec2, index, nic) for index, nic in sorted(instance.nics.items())),
            tags=tags,
            profile_arn=profile.arn if profile else None,
            profile_id=profile.id if profile else "",
            credentials=self._role_credentials(ec2, instance.id, profile),
            target_state=self._target_state(ec2.region_name, instance.id),
            reclaimed_at=ec2.reclaim_at.get(instance.id),
            rebalance_at=ec2.rebalance_at.get(instance.id),
        )

    @staticmethod
    def _profile(ec2: LocalEc2, instance: Any) -> Any:
        association = ec2.iam_instance_profile_associations.get(instance.id)
        if association is None:
            return None
        profiles = iam_backends[ec2.account_id][ec2.partition].instance_profiles
        return profiles.get(association.iam_instance_profile.id, association.iam_instance_profile)

    def _role_credentials(self, ec2: LocalEc2, instance: str, profile: Any) -> RoleCredentials | None:
        if profile is None or not profile.roles:
            return None
        now = datetime.now(UTC)
        known = self._credentials.get(instance)
        if known is None or known.expires_at - now < RENEWED_BEFORE_END:
            role = profile.roles[0]
            known = self._credentials[instance] = _assume(ec2, role.arn, role.name, instance, now)
        return known


def _assume(ec2: LocalEc2, arn: str, name: str, session: str, now: datetime) -> RoleCredentials:
    assumed = sts_backends[ec2.account_id][ec2.partition].assume_role(
        region_name=ec2.region_name,
        role_session_name=session,
        role_arn=arn,
        policy="",
        duration=int(CREDENTIAL_LIFE.total_seconds()),
        external_id="",
    )
    return RoleCredentials(
        role=name,
        access_key=assumed.access_key_id,
        secret_key=assumed.secret_access_key,
        token=assumed.session_token,
        issued_at=now,
        expires_at=now + CREDENTIAL_LIFE,
    )


def _interface(ec2: LocalEc2, index: int, nic: Any) -> Interface:
    return Interface(
        id=nic.id,
        mac=nic.mac_address,
        device_number=index,
        address=nic.private_ip_address,
        subnet=nic.subnet.id,
        subnet_block=nic.subnet.cidr_block,
        vpc=nic.subnet.vpc_id,
        vpc_block=ec2.get_vpc(nic.subnet.vpc_id).cidr_block,
        security_groups=tuple(group.id for group in nic.group_set),
    )
