"""`elastic-aws`: the options of every command, and the one place where errors become text and an exit status."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from elastic_aws import __version__
from elastic_aws.errors import ElasticAwsError, ExitCode

_COMMANDS = {
    "init": "Write a commented job file to start from.",
    "schema": "Print the job file's JSON schema.",
    "synth": "Write a job's CloudFormation template without touching AWS.",
    "create-job": "Start a training job.",
    "scale": "Change how many nodes a running job has.",
    "status": "Show a job: its round, its nodes, its progress.",
    "list": "List all jobs.",
    "logs": "Show what the workers and agents wrote.",
    "events": "Show what happened to a job.",
    "interrupt": "Take a spot instance of a job back, to see what happens (local cloud).",
    "delete-job": "End a job and delete everything that costs money.",
    "local": "The embedded cloud on this machine: up, down, status.",
    "version": "Print the version.",
}
_MODULES = {
    "init": "job_files", "schema": "job_files", "synth": "job_files", "version": "job_files",
    "create-job": "create_job", "scale": "scale", "status": "status", "list": "status",
    "logs": "logs", "events": "logs", "interrupt": "interrupt", "delete-job": "delete_job", "local": "local",
}  # fmt: skip


class LazyGroup(click.Group):
    """Imports a command's module when the command is used, so that `--help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order in which people meet them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command, imported."""
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"elastic_aws.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_") + "_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The list in `--help`, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="elastic-aws %(version)s")
@click.option("--local", is_flag=True, help="Use the embedded cloud on this machine (`elastic-aws local up`).")
@click.option("--region", metavar="NAME", help="AWS region; without it the job file's, then AWS's own settings.")
@click.pass_context
def cli(ctx: click.Context, local: bool, region: str | None) -> None:
    """Train PyTorch models on AWS GPU spot instances and lose nothing when machines come and go.

    \b
    Try it without an account:
      elastic-aws local up
      elastic-aws --local create-job examples/imagenet/job.local.yaml
      elastic-aws --local status digits --watch
    """  # noqa: D301 - click's mark for text not to be wrapped is a real backspace
    ctx.obj = {"local": local, "region": region}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command, the process's own arguments without others; exit with its `ExitCode`."""
    try:
        code = cli.main(arguments, prog_name="elastic-aws", standalone_mode=False)
    except ElasticAwsError as error:
        click.echo(f"error: {error}", err=True)
        if error.hint:
            click.echo(f"try:   {error.hint}", err=True)
        sys.exit(int(error.exit_code))
    except click.ClickException as error:
        error.show()
        sys.exit(int(ExitCode.USAGE))
    except (click.Abort, KeyboardInterrupt):
        click.echo("detached; what was started goes on", err=True)
        sys.exit(int(ExitCode.DETACHED))
    except BrokenPipeError:
        _say_nothing_more()
        sys.exit(int(ExitCode.DONE))
    except OSError as error:
        # What this machine refuses: a folder closed to us, a full disk. The commands tell what they can foresee better.
        _say_nothing_more()
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {place}{error.strerror or type(error).__name__}", err=True)
        sys.exit(int(ExitCode.FAILURE))
    sys.exit(code if isinstance(code, int) else 0)


def _say_nothing_more() -> None:
    """Python writes what is left of standard output at its end; where that cannot be written, it must not complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
