"""`python -m elastic_aws.local_cloud`: the daemon. People start it with `elastic-aws local up`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from elastic_aws.errors import ElasticAwsError
from elastic_aws.local_cloud.daemon import run


def main() -> int:
    """Serve until told to end; answer the exit status."""
    parser = argparse.ArgumentParser(prog="elastic_aws.local_cloud")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--market", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        run(home=options.home, region=options.region, market=options.market)
    except ElasticAwsError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    return 0


sys.exit(main())
