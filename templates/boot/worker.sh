#!/bin/bash
# Boots a worker node: from the unpacked wheel, after boot/stub.sh.
set -euo pipefail
root="${ELASTIC_AWS_ROOT:-}"
home="$root/opt/elastic-aws"
config="$root/etc/elastic-aws/node.json"
units="$root/etc/systemd/system"
logs="$root/var/log/elastic-aws"

# Where workers run: its kind, its Python or image, then one package of the job's a line.
runtime=$("$root/usr/bin/python3" - "$config" <<'PYTHON'
import json, sys

runtime = json.load(open(sys.argv[1], encoding="utf-8"))["runtime"]
packages = runtime.get("requirements", [])
print(runtime["kind"], runtime.get("python") or runtime.get("image"), *packages, sep="\n")
PYTHON
)
{ read -r kind; read -r place; requirements=$(cat); } <<< "$runtime"

# A text in double quotes, as a unit takes it.
quoted() {
  local text="${1//\\/\\\\}"
  text="${text//\"/\\\"}"
  printf '"%s"' "${text//%/%%}"
}

if [ "$kind" = container ]; then
  case "$place" in
    *.dkr.ecr.*)
      registry="${place%%/*}"
      region="${registry#*.dkr.ecr.}"
      aws ecr get-login-password --region "${region%%.*}" | docker login --username AWS --password-stdin "$registry"
      ;;
  esac
  docker pull "$place"
  gpus=""
  [ ! -e /dev/nvidia0 ] || gpus="--gpus all"
  start="/usr/bin/docker run --rm --name elastic-aws-agent --network host --ipc host $gpus"
  start="$start --volume /etc/elastic-aws:/etc/elastic-aws:ro --volume /opt/elastic-aws:/opt/elastic-aws"
  start="$start --volume /var/log/elastic-aws:/var/log/elastic-aws --env PYTHONPATH=/opt/elastic-aws/wheel"
  start="$start --entrypoint /bin/bash $(quoted "$place") /opt/elastic-aws/wheel/elastic_aws/templates/boot/container.sh"
else
  python="$root$place"
  needed="$home/wheel/elastic_aws/agent/requirements.txt"
  if ! "$python" "$home/wheel/elastic_aws/templates/boot/has_requirements.py" "$needed"; then
    "$python" -m pip install --quiet --requirement "$needed"
  fi
  if [ -n "$requirements" ]; then
    printf '%s\n' "$requirements" > "$home/requirements.txt"
    "$python" -m pip install --quiet --requirement "$home/requirements.txt"
  fi
  start="$(quoted "$python") -m elastic_aws.agent"
fi

mkdir -p "$units" "$logs"
# Exit code 0 is the job's end, 7 its failure, 2 and 3 a fault that trying again does not mend.
cat > "$units/elastic-aws-agent.service" <<UNIT
[Unit]
Description=elastic-aws node agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Environment=$(quoted "PYTHONPATH=$home/wheel")
Environment=PYTHONUNBUFFERED=1
ExecStart=$start --config $(quoted "$config") --root $(quoted "$root")
StandardOutput=append:$logs/agent.log
StandardError=append:$logs/agent.log
KillMode=mixed
TimeoutStopSec=90
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2 3 7
LimitNOFILE=65536
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now elastic-aws-agent.service
