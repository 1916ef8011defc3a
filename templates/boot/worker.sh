#!/bin/bash
# Boots a worker node: from the unpacked wheel, after boot/stub.sh.
set -euo pipefail
root="${ELASTIC_AWS_ROOT:-}"
home="$root/opt/elastic-aws"
config="$root/etc/elastic-aws/node.json"
read_config() { "$root/usr/bin/python3" -c 'import json, sys; c = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$config" "$1"; }
kind=$(read_config 'c["runtime"]["kind"]')
if [ "$kind" = container ]; then
  image=$(read_config 'c["runtime"]["image"]')
  docker pull "$image"
  run="docker run --rm --name elastic-aws-agent --network host --ipc host --gpus all -v $root/etc/elastic-aws:/etc/elastic-aws:ro -v $home:/opt/elastic-aws -v $root/var/log/elastic-aws:/var/log/elastic-aws -e PYTHONPATH=/opt/elastic-aws/wheel $image python"
else
  python="$root$(read_config 'c["runtime"]["python"]')"
  missing='import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ("boto3", "grpc", "google.protobuf", "pydantic", "psutil"))))'
  if ! "$python" -c "$missing" 2> /dev/null; then
    "$python" -m pip install --quiet -r "$home/wheel/elastic_aws/agent/requirements.txt"
  fi
  read_config '"\n".join(c["runtime"]["requirements"])' > "$home/requirements.txt"
  if grep -q . "$home/requirements.txt"; then
    "$python" -m pip install --quiet -r "$home/requirements.txt"
  fi
  run="$python"
fi
cat > "$root/etc/systemd/system/elastic-aws-agent.service" <<UNIT
[Unit]
Description=elastic-aws node agent
After=network-online.target

[Service]
Environment=PYTHONPATH=$home/wheel
Environment=PYTHONUNBUFFERED=1
ExecStart=$run -m elastic_aws.agent --config $config --root "$root"
StandardOutput=append:$root/var/log/elastic-aws/agent.log
StandardError=append:$root/var/log/elastic-aws/agent.log
KillMode=mixed
TimeoutStopSec=90
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2 3 7

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now elastic-aws-agent.service
