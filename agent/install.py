"""Before the agent starts: the user's code and the job's set-up commands."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import timedelta
from pathlib import Path

from elastic_aws.aws.bucket import Bucket
from elastic_aws.bundle import unpack
from elastic_aws.errors import PreflightError
from elastic_aws.event_log import Emit
from elastic_aws.events import SetupCommandDone
from elastic_aws.node_config import NodeConfig

_TAIL_LINES = 20


class SetupError(PreflightError):
    """A set-up command of the job failed. The agent is not started again: the command would fail again."""


def code_folder(config: NodeConfig, *, root: str) -> Path:
    """Where the job's code is, or will be, on this node."""
    assert config.bundle is not None
    return Path(f"{root}/opt/elastic-aws/code/{config.bundle.sha256}")


def install_code(config: NodeConfig, *, bucket: Bucket, folder: Path) -> None:
    """Fetch and unpack the bundle into its folder, once."""
    assert config.bundle is not None
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        archive = folder.with_suffix(".tar.gz")
        bucket.download(config.bundle.key, archive, sha256=config.bundle.sha256)
        draft = folder.with_suffix(".new")
        unpack(archive, draft)
        draft.rename(folder)
        archive.unlink()


def run_setup(config: NodeConfig, *, code: Path, environment: dict[str, str], log: Path, emit: Emit) -> None:
    """Run the set-up commands in the code folder, once a machine; output goes to the agent's log.

    Raises: SetupError, which names the command and ends with its last lines.
    """
    done_file = code.with_suffix(".ready")
    if done_file.exists():
        return
    for command in config.setup:
        started = time.monotonic()
        with log.open("ab") as output:
            begin = output.tell()
            done = subprocess.run(  # noqa: S602 - the user's own shell command
                command,
                shell=True,
                cwd=code,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            with log.open("rb") as file:
                file.seek(begin)
                lines = file.read().decode(errors="replace").splitlines()
            what = f"the set-up command `{command}` ended with exit code {done.returncode}"
            raise SetupError(what, why="\n".join(lines[-_TAIL_LINES:]))
        emit(SetupCommandDone(command=command, took=timedelta(seconds=time.monotonic() - started)))
    done_file.touch()
