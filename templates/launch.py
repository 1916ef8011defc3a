"""What both kinds of node are launched with: encrypted volumes, IMDSv2, no SSH key."""

from __future__ import annotations

from troposphere import GetAtt, Ref
from troposphere.ec2 import (
    EBSBlockDevice,
    IamInstanceProfile,
    LaunchTemplateBlockDeviceMapping,
    LaunchTemplateData,
    MetadataOptions,
    TagSpecifications,
)

from elastic_aws.job import JobSpec
from elastic_aws.node_config import Role
from elastic_aws.templates.names import tags
from elastic_aws.templates.user_data import user_data


def launch_data(
    spec: JobSpec, role: Role, *, image: str, profile: str, security_group: str, volume_gb: int, instance_type: str
) -> LaunchTemplateData:
    """The data of a launch template; `image`, `profile` and `security_group` are logical names."""
    part = "store" if role is Role.STORE else "workers"
    volume = EBSBlockDevice(VolumeSize=volume_gb, VolumeType="gp3", Encrypted=True, DeleteOnTermination=True)
    return LaunchTemplateData(
        ImageId=Ref(image),
        InstanceType=instance_type,
        IamInstanceProfile=IamInstanceProfile(Arn=GetAtt(profile, "Arn")),
        SecurityGroupIds=[GetAtt(security_group, "GroupId")],
        BlockDeviceMappings=[LaunchTemplateBlockDeviceMapping(DeviceName="/dev/xvda", Ebs=volume)],
        MetadataOptions=MetadataOptions(HttpTokens="required", HttpPutResponseHopLimit=2, HttpEndpoint="enabled"),
        TagSpecifications=[
            TagSpecifications(ResourceType=kind, Tags=tags(spec.name, part)) for kind in ("instance", "volume")
        ],
        UserData=user_data(spec, role),
    )
