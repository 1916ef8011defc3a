"""The local cloud's own calls: look at its machines, interrupt them, change what the market has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from elastic_aws.local_cloud.host import Host
from elastic_aws.local_cloud.machine import Machine
from elastic_aws.local_cloud.market import Interrupt, Rebalance, SetCapacity
from elastic_aws.local_cloud.spot_market import SpotMarket


class Control:
    """Answers the calls below the gateway's control path."""

    def __init__(self, *, host: Host, market: SpotMarket, instances: Callable[[], list[dict[str, Any]]]) -> None:
        self._host = host
        self._market = market
        self._instances = instances

    def call(self, method: str, name: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and JSON answer of one call."""
        match method, name:
            case "GET", "machines":
                return 200, {"machines": [self._machine(instance) for instance in self._instances()]}
            case "POST", "interrupt":
                notice = timedelta(seconds=float(asked["notice_seconds"]))
                act = Interrupt(target=asked["target"], notice=notice, replace=bool(asked["replace"]))
                return self._concerned(asked, self._market.act(act))
            case "POST", "rebalance":
                return self._concerned(asked, self._market.act(Rebalance(target=asked["target"])))
            case "POST", "capacity":
                self._market.act(SetCapacity(instances=asked["instances"]))
                return 200, {}
        return 404, {"error": f"no such call: {method} {name}"}

    @staticmethod
    def _concerned(asked: dict[str, Any], instances: list[str]) -> tuple[int, dict[str, Any]]:
        if not instances:
            return 404, {"error": f"no running spot instance fits {asked['target']!r}"}
        return 200, {"instances": instances}

    def _machine(self, instance: dict[str, Any]) -> dict[str, Any]:
        machine = self._host.machine(instance["id"])
        return instance | ({} if machine is None else _shown(machine))


def _shown(machine: Machine) -> dict[str, Any]:
    units = {
        name: {"state": unit.state, "pid": unit.pid, "code": unit.code, "restarts": unit.restarts}
        for name, unit in machine.units.items()
    }
    return {
        "boot": str(machine.boot),
        "boot_status": machine.boot_status,
        "units": units,
        "root": str(machine.place.root),
        "boot_log": str(machine.place.root / "var/log/cloud-init-output.log"),
        "gone": machine.gone.is_set(),
    }
