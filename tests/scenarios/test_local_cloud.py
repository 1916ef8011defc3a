"""The local cloud as its users see it: a real daemon, boto3, and instances whose user-data really runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from elastic_aws.local_cloud import market_client, processes
from elastic_aws.local_cloud.state import held, read_state, start, stop
from tests.scenarios.cloud_driver import (
    HOOK,
    IMAGE,
    SOON,
    USER_DATA,
    Cloud,
    complete,
    finish_waits,
    only,
    template,
)
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    home = tmp_path_factory.mktemp("cloud")
    running = Cloud(start(home=home))
    running.s3.create_bucket(Bucket="gifts", CreateBucketConfiguration={"LocationConstraint": running.state.region})
    running.s3.put_object(Bucket="gifts", Key="greeting", Body=b"hello")
    yield running
    stop(home)


@pytest.fixture
def stack(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[str]:
    """A stack with one spot instance that works, deleted afterwards."""
    name = request.node.name.replace("_", "-")[:60]
    cloud.create(name, template(cloud))
    assert cloud.finished(name) == "CREATE_COMPLETE"
    yield name
    finish_waits(cloud, name)
    cloud.stacks.delete_stack(StackName=name)
    wait_until(lambda: finish_waits(cloud, name), limit=SOON, what="deletion")


def test_a_stack_boots_its_instance_with_the_real_user_data(cloud: Cloud, stack: str) -> None:
    instance = only(cloud.phases(stack))
    machine = cloud.booted(instance)
    root = Path(machine.root)
    facts = json.loads((root / "facts.json").read_text())
    assert facts["without_token"] == "401"
    assert facts["instance"] == instance
    assert f"assumed-role/{stack}-Role-" in facts["role"]
    assert facts["role"].endswith(instance)
    assert (root / "opt/greeting").read_text() == "hello"
    assert machine.units["work.service"].state == "active"
    assert (machine.type, machine.spot, machine.address[:4]) == ("g5.xlarge", True, "127.")
    events = cloud.stacks.describe_stack_events(StackName=stack)["StackEvents"]
    done = {event["LogicalResourceId"] for event in events if event["ResourceStatus"] == "CREATE_COMPLETE"}
    assert done == {stack, "Role", "Profile", "Launch", "Group", "Hook"}


def test_a_unit_that_dies_is_started_again(cloud: Cloud, stack: str) -> None:
    machine = cloud.booted(only(cloud.phases(stack)))
    first = machine.units["work.service"].pid
    os.kill(first, signal.SIGKILL)

    def again() -> bool:
        now = cloud.machine(machine.id)
        unit = now.units["work.service"] if now else None
        return unit is not None and unit.state == "active" and unit.pid not in {0, first}

    wait_until(again, limit=SOON)


def test_scaling_in_waits_for_the_lifecycle_hook(cloud: Cloud, stack: str) -> None:
    name = cloud.group(stack)["AutoScalingGroupName"]
    cloud.groups.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
    two = wait_until(lambda: phases if len(phases := cloud.phases(stack)) == 2 else None, limit=SOON)
    assert two is not None
    for instance in two:
        cloud.booted(instance)
        assert cloud.metadata(instance, "autoscaling/target-lifecycle-state") == "InService"
    cloud.groups.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=1)
    waiting = wait_until(
        lambda: [one for one, phase in cloud.phases(stack).items() if phase == "Terminating:Wait"], limit=SOON
    )
    assert cloud.metadata(waiting[0], "autoscaling/target-lifecycle-state") == "Terminated"
    pid = cloud.booted(waiting[0]).units["work.service"].pid
    cloud.groups.record_lifecycle_action_heartbeat(
        AutoScalingGroupName=name, LifecycleHookName=HOOK, InstanceId=waiting[0]
    )
    assert cloud.phases(stack)[waiting[0]] == "Terminating:Wait"
    complete(cloud, name, waiting[0])
    wait_until(lambda: waiting[0] not in cloud.phases(stack), limit=SOON)
    assert pid not in processes.parents()
    with pytest.raises(ClientError, match="No active Lifecycle Action"):
        complete(cloud, name, waiting[0])


def test_a_spot_interruption_is_announced_then_made_then_replaced(cloud: Cloud, stack: str) -> None:
    victim = only(cloud.phases(stack))
    pid = cloud.booted(victim).units["work.service"].pid
    assert cloud.metadata(victim, "spot/instance-action") is None
    assert market_client.interrupt(cloud.state, victim, timedelta(seconds=1)) == [victim]
    action = json.loads(cloud.metadata(victim, "spot/instance-action") or "")
    assert action["action"] == "terminate"
    left = datetime.fromisoformat(action["time"]) - datetime.now(UTC)
    assert left <= timedelta(seconds=1)
    wait_until(lambda: cloud.machine(victim) is None, limit=SOON)
    assert pid not in processes.parents()
    heir = wait_until(lambda: set(cloud.phases(stack)) - {victim}, limit=SOON)
    assert cloud.booted(heir.pop()).spot


def test_a_rebalance_recommendation_is_shown(cloud: Cloud, stack: str) -> None:
    instance = only(cloud.phases(stack))
    assert market_client.rebalance(cloud.state, instance) == [instance]
    assert "noticeTime" in (cloud.metadata(instance, "events/recommendations/rebalance") or "")


def test_a_group_waits_while_the_market_has_no_capacity(cloud: Cloud, stack: str) -> None:
    group = cloud.group(stack)["AutoScalingGroupName"]
    market_client.set_capacity(cloud.state, 1)
    cloud.groups.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)

    def refused() -> bool:
        newest = cloud.groups.describe_scaling_activities(AutoScalingGroupName=group)["Activities"][0]
        return newest["StatusCode"] == "Failed" and "InsufficientInstanceCapacity" in newest["StatusMessage"]

    wait_until(refused, limit=SOON)
    assert len(cloud.phases(stack)) == 1
    market_client.set_capacity(cloud.state, None)
    wait_until(lambda: len(cloud.phases(stack)) == 2, limit=SOON)


def test_a_stack_update_changes_the_group_in_place(cloud: Cloud, stack: str) -> None:
    before = cloud.group(stack)
    cloud.stacks.update_stack(
        StackName=stack, TemplateBody=json.dumps(template(cloud, desired=2)), Capabilities=["CAPABILITY_IAM"]
    )
    assert cloud.finished(stack) == "UPDATE_COMPLETE"
    wait_until(lambda: len(cloud.phases(stack)) == 2, limit=SOON)
    after = cloud.group(stack)
    assert {one["InstanceId"] for one in before["Instances"]} < {one["InstanceId"] for one in after["Instances"]}
    assert after["MixedInstancesPolicy"] == before["MixedInstancesPolicy"]
    with pytest.raises(ClientError, match="No updates are to be performed"):
        cloud.stacks.update_stack(
            StackName=stack, TemplateBody=json.dumps(template(cloud, desired=2)), Capabilities=["CAPABILITY_IAM"]
        )


def test_a_stack_that_fails_takes_everything_back(cloud: Cloud) -> None:
    bad = {"Type": "AWS::EC2::NetworkInterface", "Properties": {"SubnetId": "subnet-none"}, "DependsOn": "Hook"}
    cloud.create("fails", template(cloud, extra={"Bad": bad}))
    assert cloud.finished("fails") == "ROLLBACK_COMPLETE"
    events = cloud.stacks.describe_stack_events(StackName="fails")["StackEvents"]
    reason = next(event for event in events if event["ResourceStatus"] == "CREATE_FAILED")
    assert (reason["LogicalResourceId"], "subnet-none" in reason["ResourceStatusReason"]) == ("Bad", True)
    assert not [one for one in cloud.groups.describe_auto_scaling_groups()["AutoScalingGroups"] if "fails" in str(one)]
    assert not [one for one in market_client.machines(cloud.state) if one.group.startswith("fails")]


def test_an_unknown_call_is_refused_as_aws_refuses(cloud: Cloud) -> None:
    for service, call, arguments in (
        ("ec2", "describe_ipam_pools", {}),
        ("autoscaling", "describe_warm_pool", {"AutoScalingGroupName": "x"}),
        ("ssm", "list_ops_item_events", {}),
        ("ec2", "describe_instances", {"InstanceIds": ["i-00000000000000000"]}),
    ):
        with pytest.raises(ClientError) as refused:
            getattr(cloud.client(service), call)(**arguments)
        assert refused.value.response["Error"]["Code"] in {"InvalidAction", "InvalidInstanceID.NotFound"}
        assert "<html" not in str(refused.value).lower()


def test_logs_parameters_and_objects_are_kept(cloud: Cloud) -> None:
    logs = cloud.client("logs")
    logs.create_log_group(logGroupName="/elastic-aws/x")
    logs.create_log_stream(logGroupName="/elastic-aws/x", logStreamName="n/events")
    now = int(datetime.now(UTC).timestamp() * 1000)
    lines = [{"timestamp": now + number, "message": f"line {number}"} for number in range(3)]
    logs.put_log_events(logGroupName="/elastic-aws/x", logStreamName="n/events", logEvents=lines)
    got = logs.get_log_events(logGroupName="/elastic-aws/x", logStreamName="n/events", startFromHead=True)["events"]
    assert [event["message"] for event in got] == ["line 0", "line 1", "line 2"]
    found = logs.filter_log_events(logGroupName="/elastic-aws/x", filterPattern='"line 1"')["events"]
    assert [event["logStreamName"] for event in found] == ["n/events"]
    image = cloud.client("ssm").get_parameter(Name=IMAGE)["Parameter"]["Value"]
    assert cloud.ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "available"
    upload = cloud.s3.create_multipart_upload(Bucket="gifts", Key="big")["UploadId"]
    part = cloud.s3.upload_part(Bucket="gifts", Key="big", UploadId=upload, PartNumber=1, Body=b"x" * 100)
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    done = cloud.s3.complete_multipart_upload(Bucket="gifts", Key="big", UploadId=upload, MultipartUpload=parts)
    assert done["ETag"]
    cloud.s3.put_object(Bucket="gifts", Key="once", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        cloud.s3.put_object(Bucket="gifts", Key="once", Body=b"2", IfNoneMatch="*")


def test_no_process_of_the_cloud_talks_to_another_computer(cloud: Cloud, stack: str) -> None:
    cloud.booted(only(cloud.phases(stack)))
    family = {cloud.state.pid} | processes.descendants(cloud.state.pid)
    inodes = {inode for pid in family for inode in socket_inodes(pid)}
    peers = remote_addresses(inodes)
    assert inodes
    assert [peer for peer in peers if not peer.startswith(("127.", "0."))] == []


def socket_inodes(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = os.readlink(entry)  # noqa: PTH115 - it is no path
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def remote_addresses(inodes: set[str]) -> list[str]:
    peers = []
    for table in ("tcp", "udp", "tcp6", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                address = bytes.fromhex(fields[2].partition(":")[0])
                peers.append(socket.inet_ntoa(address[::-1]) if len(address) == 4 else address.hex())
    return peers


ELSEWHERE = """
for program in "curl -sSf http://192.0.2.1/" "pip install http://192.0.2.1/x-1-py3-none-any.whl" \\
    "python3 -c __import__('urllib.request').request.urlopen('https://192.0.2.1/')"; do
  $program && echo "$program succeeded" || true
done >> "$ELASTIC_AWS_ROOT/elsewhere" 2>&1
mkdir "$ELASTIC_AWS_ROOT/own"
printf '[project]\\nname = "only-here"\\nversion = "1"\\n' > "$ELASTIC_AWS_ROOT/own/pyproject.toml"
pip install --no-build-isolation --no-deps "$ELASTIC_AWS_ROOT/own"
python3 -c 'import importlib.metadata as m, grpc; print(m.distribution("only-here").locate_file(""))' \\
    > "$ELASTIC_AWS_ROOT/installed"
"""


def test_what_an_instance_runs_reaches_no_other_computer_and_installs_only_on_itself(cloud: Cloud) -> None:
    made = template(cloud)
    made["Resources"]["Launch"]["Properties"]["LaunchTemplateData"]["UserData"] = {"Fn::Base64": USER_DATA + ELSEWHERE}
    cloud.create("elsewhere", made)
    assert cloud.finished("elsewhere") == "CREATE_COMPLETE"
    root = Path(cloud.booted(only(cloud.phases("elsewhere"))).root)
    said = (root / "elsewhere").read_text()
    assert "succeeded" not in said
    assert said.count("the local cloud only talks to this computer") >= 2
    assert (root / "installed").read_text().startswith(str(root))
    finish_waits(cloud, "elsewhere")
    cloud.stacks.delete_stack(StackName="elsewhere")


def test_the_daemon_refuses_to_connect_elsewhere() -> None:
    program = (
        "import socket, sys\n"
        "from elastic_aws.local_cloud.loopback_only import allow_loopback_only\n"
        "allow_loopback_only(lambda text: print(text))\n"
        "def look_up(): socket.create_connection(('example.com', 80), timeout=1)\n"
        "def connect(): socket.socket().connect(('192.0.2.1', 80))\n"
        "for act in (look_up, connect):\n"
        "    try: act()\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.count("NotLoopbackError") == 2
    assert "refused a connection to 192.0.2.1" in ran.stdout
    assert "refused a look-up of 'example.com'" in ran.stdout


@pytest.mark.parametrize("end", ["down", "SIGKILL"])
def test_no_process_outlives_the_daemon_and_nothing_survives(tmp_path: Path, end: str) -> None:
    market = tmp_path / "market.yaml"
    market.write_text("- {at: 0, capacity: 1}\n")
    cloud = Cloud(start(market, tmp_path))
    cloud.s3.create_bucket(Bucket="gifts", CreateBucketConfiguration={"LocationConstraint": cloud.state.region})
    cloud.s3.put_object(Bucket="gifts", Key="greeting", Body=b"hello")
    cloud.create("last", template(cloud))
    assert cloud.finished("last") == "CREATE_COMPLETE"
    machine = cloud.booted(only(cloud.phases("last")))
    mark = f"{processes.ROOT_VARIABLE}={machine.root}"
    assert len(processes.with_variable(mark)) >= 2
    if end == "down":
        assert stop(tmp_path)
    else:
        os.kill(cloud.state.pid, signal.SIGKILL)
    wait_until(lambda: not processes.with_variable(mark), limit=SOON, what="end of all processes")
    wait_until(lambda: not held(tmp_path), limit=SOON)
    assert read_state(tmp_path) is None
    assert not stop(tmp_path)
    assert json.loads((tmp_path / "market.jsonl").read_text().splitlines()[0])["event"] == "capacity"
