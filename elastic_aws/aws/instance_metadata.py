"""The instance metadata service, IMDSv2, with the standard library: the agent asks it twice a second."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta

from elastic_aws.errors import ElasticAwsError

ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""botocore's variable for another metadata endpoint."""
DEFAULT_ENDPOINT = "http://169.254.169.254"
CALL_LIMIT = timedelta(seconds=2)
TOKEN_LIFE = timedelta(hours=6)
"""The longest that AWS allows."""


class MetadataError(ElasticAwsError):
    """The instance metadata service did not answer."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who this instance is."""

    instance_id: str
    instance_type: str
    zone: str
    region: str
    address: str


class InstanceMetadata:
    """This machine's metadata service, never through a proxy."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token = ""
        self._token_ends = 0.0

    @classmethod
    def from_environment(cls) -> InstanceMetadata:
        """The endpoint that botocore would ask."""
        return cls(os.environ.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT)

    def identity(self) -> Identity:
        """Who this instance is. Raises: MetadataError."""
        document = json.loads(self._needed("dynamic/instance-identity/document"))
        return Identity(
            instance_id=document["instanceId"],
            instance_type=document["instanceType"],
            zone=document["availabilityZone"],
            region=document["region"],
            address=self._needed("meta-data/local-ipv4"),
        )

    def spot_action(self) -> tuple[str, str] | None:
        """(action, time in ISO 8601) once EC2 will take the instance back, else None. Raises: MetadataError."""
        text = self._get("meta-data/spot/instance-action")
        if text is None:
            return None
        document = json.loads(text)
        return str(document["action"]), str(document.get("time", ""))

    def rebalance_recommended(self) -> bool:
        """Whether EC2 expects to take the instance back soon. Raises: MetadataError."""
        return self._get("meta-data/events/recommendations/rebalance") is not None

    def target_lifecycle_state(self) -> str | None:
        """Where auto scaling wants the instance, e.g. `InService` or `Terminated`. Raises: MetadataError."""
        return self._get("meta-data/autoscaling/target-lifecycle-state")

    def _needed(self, path: str) -> str:
        text = self._get(path)
        if text is None:
            raise MetadataError("the instance metadata lacks an entry", why=path)
        return text

    def _get(self, path: str) -> str | None:
        try:
            return self._read("GET", path, {"X-aws-ec2-metadata-token": self._fresh_token()})
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if error.code == 401:
                self._token = ""
            raise MetadataError("the instance metadata service refused", why=f"{path}: {error}") from error
        except (OSError, ValueError) as error:
            raise MetadataError("the instance metadata service does not answer", why=str(error)) from error

    def _fresh_token(self) -> str:
        if not self._token or time.monotonic() > self._token_ends:
            life = str(int(TOKEN_LIFE.total_seconds()))
            self._token = self._read("PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": life})
            self._token_ends = time.monotonic() + TOKEN_LIFE.total_seconds() / 2
        return self._token

    def _read(self, method: str, path: str, headers: dict[str, str]) -> str:
        url = f"{self._endpoint}/latest/{path}"
        request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - http to the own machine
        with self._opener.open(request, timeout=CALL_LIMIT.total_seconds()) as answer:
            return str(answer.read().decode())
