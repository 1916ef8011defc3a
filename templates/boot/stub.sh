#!/bin/bash
# The whole user-data: write the node's configuration, fetch the wheel, check it, go on from within it.
# The lines that begin with @ are filled in by templates/user_data.py.
set -euo pipefail
root="${ELASTIC_AWS_ROOT:-}"
home="$root/opt/elastic-aws"
mkdir -p "$home" "$root/etc/elastic-aws" "$root/var/log/elastic-aws"
cat > "$root/etc/elastic-aws/node.json" <<'ELASTIC_AWS_NODE'
@NODE_CONFIG
ELASTIC_AWS_NODE
read -r boot region failures uri sha256 <<'ELASTIC_AWS_WHEEL'
@WHEEL
ELASTIC_AWS_WHEEL
# If this fails, `create-job` and `status` say why.
report() {
  local status=$? log="$root/var/log/cloud-init-output.log"
  [ "$status" -ne 0 ] || return 0
  { echo "booting failed with exit code $status"; tail -n 20 "$log"; } \
    | aws s3 cp --only-show-errors --region "$region" - "$failures/$(cat "$root/var/lib/cloud/data/instance-id")"
}
trap report EXIT
# A new instance's role may need some seconds until it is known everywhere.
attempt=0
until aws s3 cp --only-show-errors --region "$region" "$uri" "$home/wheel.zip"; do
  attempt=$((attempt + 1))
  [ "$attempt" -lt 10 ] || { echo "elastic-aws: $uri cannot be fetched" >&2; exit 1; }
  sleep "$attempt"
done
echo "$sha256  $home/wheel.zip" | sha256sum --check --quiet
rm -rf "$home/wheel"
"$root/usr/bin/python3" -m zipfile -e "$home/wheel.zip" "$home/wheel"
bash "$home/wheel/elastic_aws/templates/boot/$boot.sh"
