"""The workers: an auto scaling group over several instance types, on spot unless the job says otherwise."""

from __future__ import annotations

from troposphere import GetAtt, Ref, Template
from troposphere.autoscaling import (
    AutoScalingGroup,
    InstancesDistribution,
    LaunchTemplateOverrides,
    LifecycleHookSpecification,
    MixedInstancesPolicy,
)
from troposphere.autoscaling import LaunchTemplate as GroupTemplate
from troposphere.autoscaling import LaunchTemplateSpecification as TemplateVersion
from troposphere.ec2 import LaunchTemplate

from elastic_aws.job import Capacity, JobSpec
from elastic_aws.node_config import Role
from elastic_aws.templates.launch import launch_data
from elastic_aws.templates.names import DRAIN_HOOK, tags, workers_group_name


def add_workers(template: Template, spec: JobSpec) -> None:
    """Launch template and group of the workers."""
    template.add_resource(
        LaunchTemplate(
            "WorkersTemplate",
            LaunchTemplateData=launch_data(
                spec,
                Role.WORKER,
                image="WorkerImageId",
                profile="WorkersProfile",
                security_group="WorkersSecurityGroup",
                volume_gb=spec.volume_gb,
                instance_type=spec.instance_types[0],
            ),
        )
    )
    spot = spec.capacity is Capacity.SPOT
    template.add_resource(
        AutoScalingGroup(
            "Workers",
            AutoScalingGroupName=workers_group_name(spec.name),
            MinSize="0",
            MaxSize=str(spec.nodes.max),
            DesiredCapacity=str(spec.nodes.target),
            VPCZoneIdentifier=Ref("SubnetIds"),
            CapacityRebalance=spot,
            MixedInstancesPolicy=_policy(spec, spot=spot),
            LifecycleHookSpecificationList=[
                LifecycleHookSpecification(
                    LifecycleHookName=DRAIN_HOOK,
                    LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING",
                    HeartbeatTimeout=int(spec.timing.drain_timeout.total_seconds()) + 30,
                    DefaultResult="CONTINUE",
                )
            ],
            Tags=[
                {"Key": tag["Key"], "Value": tag["Value"], "PropagateAtLaunch": True}
                for tag in tags(spec.name, "workers").to_dict()
            ],
        )
    )


def _policy(spec: JobSpec, *, spot: bool) -> MixedInstancesPolicy:
    distribution = {"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": 0 if spot else 100}
    if spot:
        distribution["SpotAllocationStrategy"] = "price-capacity-optimized"  # type: ignore[assignment] # a mixed dict
    return MixedInstancesPolicy(
        InstancesDistribution=InstancesDistribution(**distribution),
        LaunchTemplate=GroupTemplate(
            LaunchTemplateSpecification=TemplateVersion(
                LaunchTemplateId=Ref("WorkersTemplate"), Version=GetAtt("WorkersTemplate", "LatestVersionNumber")
            ),
            Overrides=[LaunchTemplateOverrides(InstanceType=name) for name in spec.instance_types],
        ),
    )
