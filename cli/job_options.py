"""The job file on the command line, and the flags that override it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from elastic_aws.errors import UsageError
from elastic_aws.job_file import JobFile, load

_FLAGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("--name", "name", {"help": "Job name."}),
    ("--script", "script", {"help": "Training script, relative to FILE's folder."}),
    ("--code", "code", {"help": "Folder that travels to the nodes, relative to FILE's."}),
    ("--nodes", "nodes", {"metavar": "MIN:MAX", "help": "How many nodes the job may have."}),
    ("--target", "target", {"type": int, "help": "How many nodes to ask for at first."}),
    ("--workers-per-node", "workers_per_node", {"metavar": "auto|gpu|N", "help": "Training processes on each node."}),
    ("--instance-type", "instance_types", {"multiple": True, "help": "May be given several times."}),
    ("--capacity", "capacity", {"metavar": "spot|on-demand", "help": "How workers are bought."}),
    ("--image", "image", {"help": "Container image to run in."}),
    ("--venv-python", "venv_python", {"metavar": "PATH", "help": "Python of the machine image to run in."}),
    (
        "--requirement",
        "requirements",
        {
            "multiple": True,
            "metavar": "TEXT",
            "help": "Package to pip install, e.g. timm==1.0.9; may be given several times.",
        },
    ),
    (
        "--setup",
        "setup",
        {
            "multiple": True,
            "metavar": "CMD",
            "help": "Shell command run once on each node; may be given several times.",
        },
    ),
    (
        "--env",
        "environment",
        {
            "multiple": True,
            "metavar": "NAME=VALUE",
            "help": "Variable of the workers, beside the file's; may be given several times.",
        },
    ),
    ("--checkpoints", "checkpoints", {"help": "Where checkpoints go."}),
    ("--max-hours", "max_hours", {"type": float, "help": "Time limit."}),
    ("--bucket", "bucket", {"help": "S3 bucket for code, state and checkpoints."}),
)

_VENV_PARTS = {"python": "venv_python", "requirements": "requirements"}
"""Parts of the field `venv`, each with a flag of its own."""


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command FILE, every override, and the script's arguments after `--`."""
    for flag, name, settings in reversed(_FLAGS):
        command = click.option(flag, name, **settings)(command)
    command = click.argument("script_arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]")(command)
    return click.argument("file", type=click.Path(path_type=Path))(command)


def read_job(options: dict[str, Any]) -> JobFile:
    """The checked job. Raises: UsageError."""
    given = {name: options[name] for _, name, _ in _FLAGS if options.get(name) not in (None, ())}
    venv = {part: given.pop(flag) for part, flag in _VENV_PARTS.items() if flag in given}
    if venv:
        given["venv"] = venv
    if "environment" in given:
        given["environment"] = dict(_variable(text) for text in given["environment"])
    if isinstance(given.get("workers_per_node"), str) and given["workers_per_node"].isdigit():
        given["workers_per_node"] = int(given["workers_per_node"])
    if "instance_types" in given:
        given["instance_types"] = list(given["instance_types"])
    arguments = tuple(options["script_arguments"]) or None
    return load(options["file"], overrides=given, arguments=arguments)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--env is {text!r}", why="it has no =; allowed: NAME=VALUE", hint="--env OMP_NUM_THREADS=4")
    return name, value
