"""A worker's environment: torchrun's variables, name for name, and ours."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_aws.round_record import Endpoint
from elastic_aws.worker_channel import ROUND_VARIABLE, SOCKET_VARIABLE

if TYPE_CHECKING:
    from elastic_aws.agent.worker_group import Launch

ROLE = "default"
"""torchrun's name of the only role."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A worker's place in its round."""

    round: int
    rank: int
    local_rank: int
    world_size: int
    group_rank: int
    group_world_size: int
    endpoint: Endpoint
    restarts: int
    max_restarts: int


def worker_environment(launch: Launch, place: Place, *, socket: Path, error: Path) -> dict[str, str]:
    """What a worker finds in addition to the agent's own environment. Source: torch.distributed.run's documentation."""
    environment = {
        "RANK": place.rank,
        "LOCAL_RANK": place.local_rank,
        "WORLD_SIZE": place.world_size,
        "LOCAL_WORLD_SIZE": launch.workers,
        "GROUP_RANK": place.group_rank,
        "GROUP_WORLD_SIZE": place.group_world_size,
        "ROLE_NAME": ROLE,
        "ROLE_RANK": place.rank,
        "ROLE_WORLD_SIZE": place.world_size,
        "MASTER_ADDR": place.endpoint.host,
        "MASTER_PORT": place.endpoint.port,
        "TORCHELASTIC_RESTART_COUNT": place.restarts,
        "TORCHELASTIC_MAX_RESTARTS": place.max_restarts,
        "TORCHELASTIC_RUN_ID": launch.run,
        "TORCHELASTIC_USE_AGENT_STORE": True,
        "TORCHELASTIC_ERROR_FILE": error,
        SOCKET_VARIABLE: socket,
        ROUND_VARIABLE: place.round,
        "ELASTIC_AWS_JOB": launch.job,
        "ELASTIC_AWS_CHECKPOINTS": launch.checkpoints,
    }
    if launch.workers > 1 and "OMP_NUM_THREADS" not in launch.environment:
        environment["OMP_NUM_THREADS"] = 1
    if ip_address(place.endpoint.host).is_loopback:
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    return {name: str(value) for name, value in environment.items()} | launch.environment
