"""Who may talk to whom: only the job's own nodes, and no SSH."""

from __future__ import annotations

from troposphere import GetAtt, Ref, Select, Template
from troposphere.ec2 import NetworkInterface, SecurityGroup, SecurityGroupIngress

from elastic_aws.templates.names import STORE_PORT, tags


def add_network(template: Template, job: str) -> None:
    """Security groups of store and workers, and the store's fixed network interface."""
    template.add_resource(
        SecurityGroup(
            "WorkersSecurityGroup",
            GroupDescription=f"Workers of elastic-aws job {job}",
            VpcId=Ref("VpcId"),
            Tags=tags(job, "workers"),
        )
    )
    template.add_resource(
        SecurityGroupIngress(
            "WorkersFromWorkers",
            Description="Collectives and TCP stores between workers",
            GroupId=GetAtt("WorkersSecurityGroup", "GroupId"),
            IpProtocol="-1",
            SourceSecurityGroupId=GetAtt("WorkersSecurityGroup", "GroupId"),
        )
    )
    template.add_resource(
        SecurityGroup(
            "StoreSecurityGroup",
            GroupDescription=f"Store of elastic-aws job {job}",
            VpcId=Ref("VpcId"),
            Tags=tags(job, "store"),
        )
    )
    template.add_resource(
        SecurityGroupIngress(
            "StoreFromWorkers",
            Description="etcd clients",
            GroupId=GetAtt("StoreSecurityGroup", "GroupId"),
            IpProtocol="tcp",
            FromPort=STORE_PORT,
            ToPort=STORE_PORT,
            SourceSecurityGroupId=GetAtt("WorkersSecurityGroup", "GroupId"),
        )
    )
    template.add_resource(
        NetworkInterface(
            "StoreInterface",
            Description=f"Fixed address of the store of elastic-aws job {job}",
            SubnetId=Select(0, Ref("SubnetIds")),
            GroupSet=[GetAtt("StoreSecurityGroup", "GroupId")],
            Tags=tags(job, "store"),
        )
    )
