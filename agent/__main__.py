"""`python -m elastic_aws.agent`: the agent of a worker node, or with `controller` that of the store node."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from elastic_aws.agent.start_failure import report
from elastic_aws.errors import ElasticAwsError, ExitCode
from elastic_aws.node_config import NodeConfig


def main() -> int:
    """Run until the job ends; the exit status is an `ExitCode`."""
    parser = argparse.ArgumentParser(prog="elastic_aws.agent")
    parser.add_argument("role", nargs="?", choices=["worker", "controller"], default="worker")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--root", default=os.environ.get("ELASTIC_AWS_ROOT", ""))
    options = parser.parse_args()
    config = NodeConfig.model_validate_json(options.config.read_text())
    try:
        return int(_run(config, role=options.role, root=options.root))
    except ElasticAwsError as error:
        sys.stderr.write(f"error: {error}\n")
        report(config, error, root=options.root)
        return int(error.exit_code)
    except Exception as error:
        report(config, error, root=options.root)
        raise


def _run(config: NodeConfig, *, role: str, root: str) -> ExitCode:
    if role == "controller":
        from elastic_aws.agent.controller import run_controller

        return run_controller(config, root=root)
    from elastic_aws.agent.fork_server import ForkServer

    forks = ForkServer()  # torch's import begins before the rest of the agent's
    from elastic_aws.agent.worker_agent import run_worker

    return run_worker(config, root=root, forks=forks)


if __name__ == "__main__":
    sys.exit(main())
