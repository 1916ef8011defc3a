"""The documents of an instance's metadata service, by path. Pure."""

from __future__ import annotations

import json
from datetime import datetime
from typing import cast

from elastic_aws.local_cloud.instance_facts import InstanceFacts, Interface, RoleCredentials

Tree = dict[str, "Tree | str"]


def document(path: str, facts: InstanceFacts) -> str | None:
    """What stands at a path below `/latest/`, or the listing of a folder; None where nothing is."""
    node: Tree | str = _tree(facts)
    for part in [part for part in path.split("/") if part]:
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    if isinstance(node, str):
        return node
    return "\n".join(f"{name}/" if isinstance(child, dict) else name for name, child in node.items())


def _tree(facts: InstanceFacts) -> Tree:
    data = _meta_data(facts)
    _add(data, "spot/instance-action", _instance_action(facts))
    _add(data, "spot/termination-time", None if facts.reclaimed_at is None else _time(facts.reclaimed_at))
    _add(data, "events/recommendations/rebalance", _rebalance(facts))
    _add(data, "autoscaling/target-lifecycle-state", facts.target_state)
    if facts.credentials is not None:
        _add(data, "iam/info", _role_info(facts))
        _add(data, f"iam/security-credentials/{facts.credentials.role}", _credentials(facts.credentials))
    for key, value in facts.tags.items():
        _add(data, f"tags/instance/{key.replace('/', '_')}", value)
    tree: Tree = {"meta-data": data, "dynamic": {"instance-identity": {"document": _identity(facts)}}}
    if facts.user_data is not None:
        tree["user-data"] = facts.user_data.decode("utf-8", "surrogateescape")
    return tree


def _meta_data(facts: InstanceFacts) -> Tree:
    first = facts.interfaces[0] if facts.interfaces else None
    data: Tree = {
        "ami-id": facts.image,
        "ami-launch-index": str(facts.launch_index),
        "hostname": facts.host_name,
        "instance-id": facts.id,
        "instance-life-cycle": "spot" if facts.spot else "on-demand",
        "instance-type": facts.type,
        "local-hostname": facts.host_name,
        "local-ipv4": facts.address,
        "mac": first.mac if first else "",
        "security-groups": "\n".join(first.security_groups) if first else "",
    }
    _add(data, "placement/availability-zone", facts.zone)
    _add(data, "placement/availability-zone-id", facts.zone_id)
    _add(data, "placement/region", facts.region)
    _add(data, "services/domain", "amazonaws.com")
    _add(data, "services/partition", "aws")
    for interface in facts.interfaces:
        _add_interface(data, interface)
    return data


def _add_interface(data: Tree, interface: Interface) -> None:
    values = {
        "device-number": str(interface.device_number),
        "interface-id": interface.id,
        "local-ipv4s": interface.address,
        "mac": interface.mac,
        "security-group-ids": "\n".join(interface.security_groups),
        "subnet-id": interface.subnet,
        "subnet-ipv4-cidr-block": interface.subnet_block,
        "vpc-id": interface.vpc,
        "vpc-ipv4-cidr-block": interface.vpc_block,
    }
    for name, value in values.items():
        _add(data, f"network/interfaces/macs/{interface.mac}/{name}", value)


def _add(tree: Tree, path: str, value: str | None) -> None:
    if value is None:
        return
    *folders, name = path.split("/")
    for folder in folders:
        tree = cast("Tree", tree.setdefault(folder, {}))
    tree[name] = value


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _instance_action(facts: InstanceFacts) -> str | None:
    if facts.reclaimed_at is None:
        return None
    return json.dumps({"action": "terminate", "time": _time(facts.reclaimed_at)})


def _rebalance(facts: InstanceFacts) -> str | None:
    return None if facts.rebalance_at is None else json.dumps({"noticeTime": _time(facts.rebalance_at)})


def _role_info(facts: InstanceFacts) -> str:
    info = {"Code": "Success", "InstanceProfileArn": facts.profile_arn, "InstanceProfileId": facts.profile_id}
    return json.dumps(info, indent=2)


def _credentials(credentials: RoleCredentials) -> str:
    fields = {
        "Code": "Success",
        "LastUpdated": _time(credentials.issued_at),
        "Type": "AWS-HMAC",
        "AccessKeyId": credentials.access_key,
        "SecretAccessKey": credentials.secret_key,
        "Token": credentials.token,
        "Expiration": _time(credentials.expires_at),
    }
    return json.dumps(fields, indent=2)


def _identity(facts: InstanceFacts) -> str:
    fields = {
        "accountId": facts.account,
        "architecture": "x86_64",
        "availabilityZone": facts.zone,
        "imageId": facts.image,
        "instanceId": facts.id,
        "instanceType": facts.type,
        "pendingTime": _time(facts.launched_at),
        "privateIp": facts.address,
        "region": facts.region,
        "version": "2017-09-30",
    }
    return json.dumps(fields, indent=2)
