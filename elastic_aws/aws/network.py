"""Where a job may run: subnets, and the machine images that public parameters name."""

from __future__ import annotations

from dataclasses import dataclass

from elastic_aws.aws.session import AwsSession, translate
from elastic_aws.errors import AwsError, NotFoundError, PreflightError

STORE_IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
"""Amazon Linux 2023. Source: EC2 User Guide, public parameters."""
PYTORCH_IMAGE = "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-amazon-linux-2023/latest/ami-id"
"""NVIDIA's driver, and torch in /opt/pytorch; serves types without GPUs too. Source: AWS Deep Learning AMIs."""
CONTAINER_IMAGE = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-al2023/latest/ami-id"
"""NVIDIA's driver and docker with its GPU runtime, no torch. Source: AWS Deep Learning AMIs."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A VPC and the subnets to use in it."""

    vpc: str
    subnets: tuple[str, ...]


def find_network(session: AwsSession, subnets: tuple[str, ...]) -> Network:
    """The VPC of these subnets, or the default VPC with one subnet a zone.

    Raises: PreflightError when there is no default VPC, or the subnets are unknown or not of one VPC.
    """
    client = session.client("ec2")
    hint = "subnets: [subnet-...]   in the job file"
    try:
        with translate("looking at the subnets"):
            if subnets:
                found = client.describe_subnets(SubnetIds=list(subnets))["Subnets"]
            else:
                only_default = [{"Name": "default-for-az", "Values": ["true"]}]
                found = client.describe_subnets(Filters=only_default)["Subnets"]
    except (AwsError, NotFoundError) as error:
        raise PreflightError("the job's subnets cannot be used", why=error.why, hint=hint) from error
    if not found:
        why = f"{session.region} has no default VPC"
        raise PreflightError("no network to run in", why=why, hint=hint)
    networks = sorted({subnet["VpcId"] for subnet in found})
    if len(networks) > 1:
        why = f"they are in {' and '.join(networks)}"
        raise PreflightError("the job's subnets belong to several networks", why=why, hint=hint)
    ordered = sorted(found, key=lambda subnet: str(subnet["AvailabilityZone"]))
    return Network(vpc=networks[0], subnets=subnets or tuple(subnet["SubnetId"] for subnet in ordered))


def find_image(session: AwsSession, named: str) -> str:
    """The image id that this is or, where it is a parameter's path, names. Raises: PreflightError."""
    if named.startswith("ami-"):
        return named
    try:
        with translate(f"reading the parameter {named}"):
            return str(session.client("ssm").get_parameter(Name=named)["Parameter"]["Value"])
    except NotFoundError as error:
        why = f"the parameter {named} does not exist in {session.region}"
        raise PreflightError(
            "no machine image", why=why, hint="machine_image: ami-...   in the job file, or another region"
        ) from error
