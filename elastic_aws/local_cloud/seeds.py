"""What an AWS account finds in every region without having made it: machine images and their public parameters."""

from __future__ import annotations

from typing import Any

from moto.ssm.models import Parameter

from elastic_aws.local_cloud.ec2 import LocalEc2

IMAGES = {
    "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64": "al2023-ami-2023-kernel-default-x86_64",
    "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.1-x86_64": "al2023-ami-2023-kernel-6.1-x86_64",
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-al2023/latest/ami-id": (
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023)"
    ),
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)"
    ),
    "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-amazon-linux-2023/latest/ami-id": (
        "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.7 (Amazon Linux 2023)"
    ),
    "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id": (
        "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.7 (Ubuntu 22.04)"
    ),
}
"""Public SSM parameters and the image each names. All boot the same: the local cloud has one kind of machine."""


def seed_region(ec2: LocalEc2, parameters: Any) -> None:
    """Register the images and set the public parameters that name them; `parameters` is moto's SSM of the region."""
    for number, (path, name) in enumerate(IMAGES.items(), start=1):
        image = f"ami-{number:017x}"
        register_image(ec2, image, name)
        put_public_parameter(parameters, path, image)


def register_image(ec2: LocalEc2, image: str, name: str) -> None:
    """Let an image be found and launched."""
    from moto.ec2.models.amis import Ami

    ec2.amis[image] = Ami(
        ec2,
        image,
        name=name,
        description=name,
        owner_id="137112412989",
        owner_alias="amazon",
        public=True,
        virtualization_type="hvm",
        architecture="x86_64",
        root_device_type="ebs",
        root_device_name="/dev/xvda",
        hypervisor="xen",
        region_name=f"{ec2.region_name}a",
    )


def put_public_parameter(parameters: Any, path: str, value: str) -> None:
    """Set a parameter below /aws/service, which PutParameter refuses."""
    parameters._parameters[path].append(
        Parameter(
            account_id=parameters.account_id,
            name=path,
            value=value,
            parameter_type="String",
            description="",
            allowed_pattern=None,
            keyid=None,
            last_modified_date=0,
            version=1,
            data_type="aws:ec2:image",
        )
    )
