"""`local`: the embedded cloud."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from elastic_aws.cli.session import running_local_cloud
from elastic_aws.cli.text import data, json_data, progress


@click.group("local")
def local_command() -> None:
    """The embedded cloud on this machine. Nothing in it survives `down`."""


@local_command.command("up")
@click.option("--market", type=click.Path(path_type=Path), help="File that scripts the spot market.")
def up(market: Path | None) -> None:
    """Start it."""
    from elastic_aws.local_cloud.state import start

    state = start(market)
    progress(f"the local cloud answers at {state.endpoint_url} (region {state.region}); its files are in {state.home}")
    progress("nothing in it survives `elastic-aws local down`")


@local_command.command("down")
def down() -> None:
    """Stop it, with all its instances."""
    from elastic_aws.local_cloud.state import stop

    progress("the local cloud is down; nothing of it is left running" if stop() else "no local cloud was running")


@local_command.command("status")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(as_json: bool) -> None:
    """Show its instances."""
    from elastic_aws.local_cloud.market_client import machines

    state = running_local_cloud()
    found = machines(state)
    if as_json:
        json_data({"cloud": asdict(state), "machines": [asdict(machine) for machine in found]})
        return
    data(f"{state.endpoint_url}  {state.region}  process {state.pid}")
    for machine in found:
        units = ", ".join(f"{name} {unit.state}" for name, unit in machine.units.items())
        data(f"{machine.id}  {machine.address:<14} {machine.zone}  {machine.state}  boot {machine.boot}  {units}")
