#!/bin/bash
# Runs the agent inside the job's container image, with what it needs installed there if it is missing.
set -euo pipefail
boot=/opt/elastic-aws/wheel/elastic_aws/templates/boot
requirements=/opt/elastic-aws/wheel/elastic_aws/agent/requirements.txt
python=$(command -v python3 || command -v python)
if ! "$python" "$boot/has_requirements.py" "$requirements"; then
  "$python" -m pip install --quiet --requirement "$requirements"
fi
exec "$python" -m elastic_aws.agent "$@"
