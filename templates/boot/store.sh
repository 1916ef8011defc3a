#!/bin/bash
# Boots the store node: etcd behind the fixed network interface, and the job's controller.
set -euo pipefail
root="${ELASTIC_AWS_ROOT:-}"
home="$root/opt/elastic-aws"
config="$root/etc/elastic-aws/node.json"
etcd_version=3.5.27
etcd_sha256=0aad9a9e4e0817a021e933f9806a2b2960a62f949ad5a3d6436d8886945cb1bc
python="$root/usr/bin/python3"
read_config() { "$root/usr/bin/python3" -c 'import json, sys; c = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$config" "$1"; }
usable='import importlib.util as u, sys; sys.exit(sys.version_info < (3, 11) or not all(map(u.find_spec, ("boto3", "grpc", "google.protobuf", "pydantic"))))'
if ! "$python" -c "$usable" 2> /dev/null; then
  dnf install -y python3.11
  python3.11 -m venv "$home/venv"
  python="$home/venv/bin/python"
  "$python" -m pip install --quiet -r "$home/wheel/elastic_aws/agent/requirements.txt"
fi
if ! command -v etcd > /dev/null; then
  archive="etcd-v$etcd_version-linux-amd64"
  curl -sSfL --retry 5 -o "$home/etcd.tar.gz" "https://github.com/etcd-io/etcd/releases/download/v$etcd_version/$archive.tar.gz"
  echo "$etcd_sha256  $home/etcd.tar.gz" | sha256sum --check --quiet
  tar -xzf "$home/etcd.tar.gz" -C "$root/usr/local/bin" --strip-components 1 "$archive/etcd"
fi
etcd=$(command -v etcd)

metadata="${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}/latest"
token=$(curl -sSf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$metadata/api/token")
instance=$(curl -sSf -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/instance-id")
region=$(read_config 'c["region"]')
interface=$(read_config 'c["store_interface"]')
endpoint=$(read_config 'c["store_endpoints"][0]')
address=${endpoint#*://}
address=${address%:*}
# The instance before this one may still hold the interface for a while.
for attempt in $(seq 1 60); do
  aws ec2 attach-network-interface --region "$region" --device-index 1 \
    --network-interface-id "$interface" --instance-id "$instance" > /dev/null && break
  echo "attempt $attempt to attach $interface failed" >&2
  sleep 5
done

mkdir -p "$root/var/lib/elastic-aws"
cat > "$root/etc/systemd/system/elastic-aws-etcd.service" <<UNIT
[Unit]
Description=etcd of one elastic-aws job
After=network-online.target

[Service]
ExecStart=$etcd --data-dir $root/var/lib/elastic-aws/etcd --listen-client-urls http://$address:2379 --advertise-client-urls http://$address:2379 --listen-peer-urls http://$address:2380 --initial-advertise-peer-urls http://$address:2380 --initial-cluster default=http://$address:2380 --auto-compaction-retention 1h --log-level warn
StandardOutput=append:$root/var/log/elastic-aws/etcd.log
StandardError=append:$root/var/log/elastic-aws/etcd.log
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
UNIT
cat > "$root/etc/systemd/system/elastic-aws-controller.service" <<UNIT
[Unit]
Description=elastic-aws job controller
After=elastic-aws-etcd.service

[Service]
Environment=PYTHONPATH=$home/wheel
Environment=PYTHONUNBUFFERED=1
ExecStart=$python -m elastic_aws.agent controller --config $config --root "$root"
StandardOutput=append:$root/var/log/elastic-aws/agent.log
StandardError=append:$root/var/log/elastic-aws/agent.log
Restart=on-failure
RestartSec=2

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now elastic-aws-etcd.service elastic-aws-controller.service
