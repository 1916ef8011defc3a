#!/bin/bash
# Runs the agent inside the job's container image, with what it needs installed there if it is missing.
set -euo pipefail
needed='import importlib.util as u, sys
needed = ("boto3", "grpc", "google.protobuf", "psutil", "pydantic", "s3torchconnector", "stamina")
sys.exit(not all(map(u.find_spec, needed)))'
python=$(command -v python3 || command -v python)
if ! "$python" -c "$needed" 2> /dev/null; then
  "$python" -m pip install --quiet --requirement /opt/elastic-aws/wheel/elastic_aws/agent/requirements.txt
fi
exec "$python" -m elastic_aws.agent "$@"
