"""A worker's environment: torchrun's variables, name for name, and ours."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_aws.agent.group_events import Seating
from elastic_aws.worker_channel import ROUND_VARIABLE, SOCKET_VARIABLE

if TYPE_CHECKING:
    from elastic_aws.agent.worker_group import Launch

ROLE = "default"
"""torchrun's name of the only role."""


def worker_environment(
    launch: Launch, seating: Seating, local_rank: int, *, socket: Path, error: Path
) -> dict[str, str]:
    """What a worker finds in addition to the agent's own environment. Source: torch.distributed.run's documentation."""
    environment = {
        "RANK": seating.first_rank + local_rank,
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": seating.world_size,
        "LOCAL_WORLD_SIZE": launch.workers,
        "GROUP_RANK": seating.group_rank,
        "GROUP_WORLD_SIZE": seating.group_world_size,
        "ROLE_NAME": ROLE,
        "ROLE_RANK": seating.first_rank + local_rank,
        "ROLE_WORLD_SIZE": seating.world_size,
        "MASTER_ADDR": seating.endpoint.host,
        "MASTER_PORT": seating.endpoint.port,
        "TORCHELASTIC_RESTART_COUNT": seating.restarts,
        "TORCHELASTIC_MAX_RESTARTS": seating.max_restarts,
        "TORCHELASTIC_RUN_ID": launch.run,
        "TORCHELASTIC_USE_AGENT_STORE": True,
        "TORCHELASTIC_ERROR_FILE": error,
        SOCKET_VARIABLE: socket,
        ROUND_VARIABLE: seating.round,
        "ELASTIC_AWS_JOB": launch.job,
        "ELASTIC_AWS_CHECKPOINTS": launch.checkpoints,
    }
    if launch.workers > 1 and "OMP_NUM_THREADS" not in launch.environment:
        environment["OMP_NUM_THREADS"] = 1
    if ip_address(seating.endpoint.host).is_loopback:
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    return {name: str(value) for name, value in environment.items()} | launch.environment
