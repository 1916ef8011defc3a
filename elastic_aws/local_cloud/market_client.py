"""Asking the local cloud for what AWS has no call for: interruptions, capacity, a look at the machines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from elastic_aws.errors import NotFoundError
from elastic_aws.local_cloud.state import LocalCloudError, LocalCloudState

CALL_LIMIT = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class UnitStatus:
    """A unit of a machine. `code`: its last exit status, negative for a signal."""

    state: str
    pid: int
    code: int | None
    restarts: int


@dataclass(frozen=True, kw_only=True)
class MachineStatus:
    """An instance and what runs on it.

    `boot` is `running`, `done` or `failed`: how far its user-data is. `boot_log` is the user-data's output.
    """

    id: str
    state: str
    address: str
    zone: str
    type: str
    spot: bool
    group: str
    boot: str
    boot_status: int | None
    boot_log: str
    root: str
    units: dict[str, UnitStatus]


def interrupt(state: LocalCloudState, instance_id: str, notice: timedelta, *, replace: bool = True) -> list[str]:
    """Reclaim a spot instance after `notice`; with none, its power fails at once. Answers the instances concerned.

    `instance_id` may also be "oldest" or "newest". Without `replace` its place stays empty until somebody scales.
    Raises: NotFoundError when no running spot instance fits, LocalCloudError when the local cloud does not answer.
    """
    asked = {"target": instance_id, "notice_seconds": notice.total_seconds(), "replace": replace}
    return list(_call(state, "POST", "interrupt", asked)["instances"])


def rebalance(state: LocalCloudState, instance_id: str) -> list[str]:
    """Recommend a rebalance to a spot instance. Raises as `interrupt`."""
    return list(_call(state, "POST", "rebalance", {"target": instance_id})["instances"])


def set_capacity(state: LocalCloudState, instances: int | None) -> None:
    """How many spot instances the market gives in all; None for any number. Running ones stay."""
    _call(state, "POST", "capacity", {"instances": instances})


def machines(state: LocalCloudState) -> tuple[MachineStatus, ...]:
    """All instances of the region that are not gone, and those whose boot failed."""
    answer = _call(state, "GET", "machines", None)
    return tuple(_machine(fields) for fields in answer["machines"])


def _machine(fields: dict[str, Any]) -> MachineStatus:
    units = {name: UnitStatus(**unit) for name, unit in fields.get("units", {}).items()}
    known = {name: fields.get(name) for name in MachineStatus.__dataclass_fields__}
    return MachineStatus(**known | {"units": units})


def _call(state: LocalCloudState, method: str, name: str, asked: dict[str, Any] | None) -> dict[str, Any]:
    body = None if asked is None else json.dumps(asked).encode()
    request = Request(f"{state.endpoint_url}/_elastic-aws/{name}", data=body, method=method)  # noqa: S310 - http to our own daemon
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(request, timeout=CALL_LIMIT.total_seconds()) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except HTTPError as error:
        why = json.load(error).get("error", "")
        raise NotFoundError(f"the local cloud refused {name}", why=why, hint="elastic-aws local status") from error
    except (URLError, OSError, ValueError) as error:
        what, hint = "the local cloud does not answer", "elastic-aws local down && elastic-aws local up"
        raise LocalCloudError(what, why=str(error), hint=hint) from error
