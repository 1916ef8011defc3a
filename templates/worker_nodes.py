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
from troposphere.policies import AutoScalingScheduledAction, UpdatePolicy

from elastic_aws.job import Capacity, JobSpec
from elastic_aws.node_config import HOOK_MARGIN_SECONDS, Role
from elastic_aws.templates.launch import launch_data
from elastic_aws.templates.names import DRAIN_HOOK, group_tags, workers_group_name


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
                    HeartbeatTimeout=int(spec.timing.drain_timeout.total_seconds()) + HOOK_MARGIN_SECONDS,
                    DefaultResult="CONTINUE",
                )
            ],
            Tags=group_tags(spec.name, "workers"),
            # An update of the stack leaves a size alone that `elastic-aws scale` set.
            UpdatePolicy=UpdatePolicy(
                AutoScalingScheduledAction=AutoScalingScheduledAction(IgnoreUnmodifiedGroupSizeProperties=True)
            ),
            DependsOn=["WorkersFromWorkers", "LogGroup"],
        )
    )


def _policy(spec: JobSpec, *, spot: bool) -> MixedInstancesPolicy:
    strategy = (
        {"SpotAllocationStrategy": "price-capacity-optimized"}
        if spot
        else {"OnDemandAllocationStrategy": "prioritized"}
    )
    return MixedInstancesPolicy(
        InstancesDistribution=InstancesDistribution(
            OnDemandBaseCapacity=0, OnDemandPercentageAboveBaseCapacity=0 if spot else 100, **strategy
        ),
        LaunchTemplate=GroupTemplate(
            LaunchTemplateSpecification=TemplateVersion(
                LaunchTemplateId=Ref("WorkersTemplate"), Version=GetAtt("WorkersTemplate", "LatestVersionNumber")
            ),
            Overrides=[LaunchTemplateOverrides(InstanceType=name) for name in spec.instance_types],
        ),
    )
