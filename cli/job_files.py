"""`init`, `schema`, `synth`, `version`: commands that need no cloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from elastic_aws import __version__
from elastic_aws.cli.job_options import job_options, read_job
from elastic_aws.cli.text import data, progress
from elastic_aws.errors import UsageError

STARTER = """\
# A job for elastic-aws. Every field: elastic-aws schema
name: my-job                      # the stack will be elastic-aws-my-job
script: train.py                  # relative to `code`
code: .                           # the folder that travels to the nodes (respects .gitignore)
# arguments: [--epochs, "90"]     # or after `--` on the command line
nodes: {min: 1, max: 4, target: 2}  # training goes on with anything from min to max
instance_types: [g5.xlarge, g6.xlarge]  # the group buys whichever is cheap and likely to stay
workers_per_node: auto            # one a GPU; or a number
capacity: spot                    # or on-demand
# setup: [pip install -r requirements.txt]  # once on each node, in the code folder
# environment: {WANDB_MODE: offline}
# checkpoints: s3://my-bucket/somewhere     # the job's own bucket where left out
max_hours: 24                     # the job ends after so long
"""


@click.command("init")
@click.argument("file", type=click.Path(path_type=Path), default=Path("job.yaml"))
def init_command(file: Path) -> None:
    """Write a commented job file to start from."""
    try:
        with file.open("x") as out:
            out.write(STARTER)
    except FileExistsError as error:
        raise UsageError(f"{file} exists", why="nothing was written", hint="elastic-aws init other.yaml") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written", why=str(error)) from error
    progress(f"wrote {file}; next: elastic-aws create-job {file}")


def job_schema() -> dict[str, Any]:
    """The job file's JSON schema."""
    from elastic_aws.job import JobSpec

    return JobSpec.model_json_schema()


@click.command("schema")
def schema_command() -> None:
    """Print the job file's JSON schema, for editors and checks."""
    data(json.dumps(job_schema(), indent=2))


@click.command("synth", context_settings={"ignore_unknown_options": False})
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder; standard output without it."
)
@job_options
def synth_command(out: Path | None, **options: Any) -> None:
    """Write a job's CloudFormation template as canonical JSON, without touching AWS."""
    job = read_job(options)
    from elastic_aws.templates.job_stack import job_stack

    template = job_stack(job.spec)
    if out is None:
        data(template.rstrip("\n"))
        return
    file = out / f"elastic-aws-{job.spec.name}.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        file.write_text(template)
    except OSError as error:
        why = f"{error.strerror or error}; allowed: a folder that you may write to"
        raise UsageError(f"--out is {str(out)!r}: {file} cannot be written", why=why, hint="-o out") from error
    progress(f"wrote {file}")


@click.command("version")
def version_command() -> None:
    """Print the version."""
    data(__version__)
