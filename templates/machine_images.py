"""The machine images that a job's nodes boot from where the job names none."""

from __future__ import annotations

from dataclasses import dataclass

from elastic_aws.job import JobSpec

_SSM = "/aws/service"
STORE_IMAGE = f"{_SSM}/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
CONTAINER_IMAGE = f"{_SSM}/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-al2023/latest/ami-id"
"""Driver, docker and its GPU runtime; no torch."""
PYTORCH_IMAGE = f"{_SSM}/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-amazon-linux-2023/latest/ami-id"
"""Driver, and torch in /opt/pytorch. It serves types without GPUs as well."""


@dataclass(frozen=True, kw_only=True)
class MachineImages:
    """For the parameters StoreImageId and WorkerImageId: an AMI id, or the SSM parameter that holds one."""

    store: str
    workers: str


def machine_images(spec: JobSpec) -> MachineImages:
    """The images of a job's nodes. Source of the paths: AWS's public SSM parameters."""
    default = PYTORCH_IMAGE if spec.image is None else CONTAINER_IMAGE
    return MachineImages(store=STORE_IMAGE, workers=spec.machine_image or default)
