"""One session with AWS, or with the local cloud, and the translation of its errors into ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own name
    CredentialRetrievalError,
    EndpointConnectionError,
    InvalidRegionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

from elastic_aws.errors import (
    AwsError,
    CredentialsError,
    ElasticAwsError,
    NoCapacityError,
    NotFoundError,
    PreflightError,
)

_CREDENTIAL_ERRORS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
_CREDENTIAL_CODES = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_ABSENT_CODES = {"NoSuchBucket", "NoSuchKey", "404", "ResourceNotFoundException", "ParameterNotFound"}
_ABSENT_WORDS = ("does not exist", "AutoScalingGroup name not found", "No Lifecycle Hook found")
"""In ValidationErrors: CloudFormation and Auto Scaling have no code of their own for it."""

_CAPACITY_CODES = {"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow"}
_LOG_IN = "aws configure   or   aws sso login   (elastic-aws --local needs no account)"


class AwsSession:
    """Clients of one region. `endpoint_url` replaces every AWS endpoint; `local` uses the local cloud's fixed keys.

    Raises: PreflightError when no region is named or AWS has none of this name, CredentialsError for a profile that
    does not exist.
    """

    def __init__(self, region: str | None, endpoint_url: str | None = None, *, local: bool = False) -> None:
        self.local = local
        self._endpoint_url = endpoint_url
        self._clients: dict[str, Any] = {}
        keys: dict[str, Any] = {"aws_access_key_id": "local", "aws_secret_access_key": "local"} if local else {}
        with translate("starting an AWS session"):
            self._session: Any = boto3.Session(region_name=region, **keys)
        found: str | None = self._session.region_name
        if found is None:
            hint = "elastic-aws --region us-west-2 ...   or   region: us-west-2   in the job file"
            raise PreflightError(
                "no AWS region", why="neither --region, the job file nor AWS's own settings name one", hint=hint
            )
        if endpoint_url is None:
            self._check_region(found)
        self.region = found

    def _check_region(self, region: str) -> None:
        """Told from botocore's own list: looking for the endpoint of a misspelt region takes long."""
        partitions: list[str] = self._session.get_available_partitions()
        known = {name for each in partitions for name in self._session.get_available_regions("ec2", each)}
        if region not in known:
            from difflib import get_close_matches

            near = get_close_matches(region, known, n=1)
            hint = f"elastic-aws --region {near[0] if near else 'us-west-2'} ..."
            raise PreflightError(f"no AWS region {region!r}", why="AWS has none of this name", hint=hint)

    @classmethod
    def from_environment(cls, region: str | None = None) -> AwsSession:
        """The session of a node: keys, region and endpoint come as AWS's own tools find them."""
        return cls(region, os.environ.get("AWS_ENDPOINT_URL") or None)

    def client(self, service: str) -> Any:
        """The boto3 client of a service, made once."""
        if service not in self._clients:
            with translate(f"opening {service}"):
                self._clients[service] = self._session.client(
                    service, endpoint_url=self._endpoint_url, config=self._config()
                )
        return self._clients[service]

    def _config(self) -> Config:
        loopback = (urlparse(self._endpoint_url or "").hostname or "").startswith("127.")
        limits: dict[str, Any] = {"retries": {"mode": "standard", "max_attempts": 5}, "connect_timeout": 10}
        # A proxy cannot reach this machine's own loopback addresses.
        return Config(**limits, proxies={}) if loopback else Config(**limits)

    def account(self) -> str:
        """The account's number. Raises: CredentialsError."""
        with translate("asking AWS who you are"):
            return str(self.client("sts").get_caller_identity()["Account"])


@contextmanager
def translate(doing: str) -> Iterator[None]:
    """Let only our own errors out of the block; `doing` says what was tried, as in `creating the stack`."""
    try:
        yield
    except ClientError as error:
        raise _of_answer(doing, error) from error
    except _CREDENTIAL_ERRORS as error:
        raise CredentialsError(f"no AWS credentials for {doing}", why=str(error), hint=_LOG_IN) from error
    except (NoRegionError, InvalidRegionError) as error:
        raise PreflightError(
            "no usable AWS region", why=str(error), hint="elastic-aws --region us-west-2 ..."
        ) from error
    except (EndpointConnectionError, ConnectionError) as error:
        hint = "is the region's name right, and is there a network?"
        raise PreflightError(f"AWS does not answer {doing}", why=str(error), hint=hint) from error
    except BotoCoreError as error:
        raise AwsError(f"AWS failed at {doing}", why=str(error)) from error


def error_code(error: ElasticAwsError) -> str:
    """AWS's code of the answer that became this error; empty when there was none."""
    cause = error.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


def _of_answer(doing: str, error: ClientError) -> ElasticAwsError:
    answer = error.response.get("Error", {})
    code, why = str(answer.get("Code", "")), str(answer.get("Message", error))
    if code in _CREDENTIAL_CODES:
        return CredentialsError(f"AWS refused the credentials for {doing}", why=why, hint=_LOG_IN)
    if code in _ABSENT_CODES or (code == "ValidationError" and any(each in why for each in _ABSENT_WORDS)):
        return NotFoundError(f"not found while {doing}", why=why)
    if code in _CAPACITY_CODES:
        return NoCapacityError(f"no capacity for {doing}", why=why)
    return AwsError(f"AWS refused {doing}", why=f"{code}: {why}" if code else why)
