#!/bin/bash
# Boots the store node: etcd behind the fixed network interface, and the job's controller.
set -euo pipefail
root="${ELASTIC_AWS_ROOT:-}"
home="$root/opt/elastic-aws"
config="$root/etc/elastic-aws/node.json"
units="$root/etc/systemd/system"
logs="$root/var/log/elastic-aws"
etcd_version=3.5.27

# A Python with what the controller imports; Amazon Linux 2023 comes with 3.9.
python="$root/usr/bin/python3"
needed="$home/wheel/elastic_aws/agent/requirements.txt"
if ! "$python" "$home/wheel/elastic_aws/templates/boot/has_requirements.py" "$needed"; then
  dnf install -y python3.11
  python3.11 -m venv "$home/venv"
  python="$home/venv/bin/python"
  "$python" -m pip install --quiet --requirement "$needed"
fi

if ! command -v etcd > /dev/null; then
  # Source of the digests: the checksum table of kubernetes-sigs/kubespray.
  case "$(uname -m)" in
    x86_64) arch=amd64 sha256=0aad9a9e4e0817a021e933f9806a2b2960a62f949ad5a3d6436d8886945cb1bc ;;
    aarch64) arch=arm64 sha256=1277309f540c5a0329c428f95455c9f76d24f768c8d28fd2753e891c379053fa ;;
    *) echo "elastic-aws: there is no etcd for $(uname -m)" >&2; exit 1 ;;
  esac
  name="etcd-v$etcd_version-linux-$arch"
  curl -sSfL --retry 5 -o "$home/etcd.tar.gz" "https://github.com/etcd-io/etcd/releases/download/v$etcd_version/$name.tar.gz"
  echo "$sha256  $home/etcd.tar.gz" | sha256sum --check --quiet
  tar -xzf "$home/etcd.tar.gz" -C "$root/usr/local/bin" --strip-components 1 --no-same-owner "$name/etcd" "$name/etcdctl"
fi
etcd=$(PATH="$PATH:$root/usr/local/bin" command -v etcd)

# What the configuration says of the interface, and which instance this is, by IMDSv2.
facts=$("$python" - "$config" <<'PYTHON'
import json, os, sys, urllib.request
from urllib.parse import urlsplit

config = json.load(open(sys.argv[1]))
service = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or "http://169.254.169.254"
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(path, method, header):
    request = urllib.request.Request(service.rstrip("/") + "/latest/" + path, method=method, headers=header)
    return opener.open(request, timeout=5).read().decode()


token = ask("api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "300"})
instance = ask("meta-data/instance-id", "GET", {"X-aws-ec2-metadata-token": token})
print(instance, config["region"], config["store_interface"], urlsplit(config["store_endpoints"][0]).hostname)
PYTHON
)
read -r instance region interface address <<< "$facts"

# The instance before this one may still hold the interface until it is gone.
attempt=0
until aws ec2 attach-network-interface --region "$region" --device-index 1 \
  --network-interface-id "$interface" --instance-id "$instance" > /dev/null; do
  attempt=$((attempt + 1))
  [ "$attempt" -lt 120 ] || { echo "elastic-aws: $interface cannot be attached" >&2; exit 1; }
  sleep 3
done

# A text in double quotes, as a unit takes it.
quoted() {
  local text="${1//\\/\\\\}"
  text="${text//\"/\\\"}"
  printf '"%s"' "${text//%/%%}"
}

mkdir -p "$root/var/lib/elastic-aws" "$units" "$logs"
client="http://$address:2379"
peer="http://$address:2380"
# It cannot listen before the interface has its address: it tries again for as long as that takes.
cat > "$units/elastic-aws-etcd.service" <<UNIT
[Unit]
Description=etcd of one elastic-aws job
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=$(quoted "$etcd") --data-dir $(quoted "$root/var/lib/elastic-aws/etcd") --listen-client-urls $client --advertise-client-urls $client --listen-peer-urls $peer --initial-advertise-peer-urls $peer --initial-cluster default=$peer --auto-compaction-mode periodic --auto-compaction-retention 1h --log-level warn
StandardOutput=append:$logs/etcd.log
StandardError=append:$logs/etcd.log
Restart=always
RestartSec=1
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
UNIT
cat > "$units/elastic-aws-controller.service" <<UNIT
[Unit]
Description=elastic-aws job controller
Wants=elastic-aws-etcd.service
After=elastic-aws-etcd.service
StartLimitIntervalSec=0

[Service]
Environment=$(quoted "PYTHONPATH=$home/wheel")
Environment=PYTHONUNBUFFERED=1
ExecStart=$(quoted "$python") -m elastic_aws.agent controller --config $(quoted "$config") --root $(quoted "$root")
StandardOutput=append:$logs/agent.log
StandardError=append:$logs/agent.log
TimeoutStopSec=20
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2 3 7

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now elastic-aws-etcd.service elastic-aws-controller.service
