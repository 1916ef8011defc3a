"""The store: an auto scaling group of one on-demand instance, replaced when it fails."""

from __future__ import annotations

from troposphere import GetAtt, Ref, Select, Template
from troposphere.autoscaling import AutoScalingGroup
from troposphere.autoscaling import LaunchTemplateSpecification as GroupTemplate
from troposphere.ec2 import LaunchTemplate

from elastic_aws.job import JobSpec
from elastic_aws.node_config import Role
from elastic_aws.templates.launch import launch_data
from elastic_aws.templates.names import group_tags

STORE_VOLUME_GB = 20
"""etcd keeps a job's few kilobytes; the rest is the operating system."""


def add_store(template: Template, spec: JobSpec) -> None:
    """Launch template and group of the store."""
    template.add_resource(
        LaunchTemplate(
            "StoreTemplate",
            LaunchTemplateData=launch_data(
                spec,
                Role.STORE,
                image="StoreImageId",
                profile="StoreProfile",
                security_group="StoreSecurityGroup",
                volume_gb=STORE_VOLUME_GB,
                instance_type=spec.store_instance_type,
            ),
        )
    )
    template.add_resource(
        AutoScalingGroup(
            "Store",
            MinSize="1",
            MaxSize="1",
            DesiredCapacity="1",
            VPCZoneIdentifier=[Select(0, Ref("SubnetIds"))],
            LaunchTemplate=GroupTemplate(
                LaunchTemplateId=Ref("StoreTemplate"), Version=GetAtt("StoreTemplate", "LatestVersionNumber")
            ),
            Tags=group_tags(spec.name, "store"),
            DependsOn=["StoreFromWorkers", "LogGroup"],
        )
    )
