"""Objects of one bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastic_aws.aws.session import AwsSession, error_code, translate
from elastic_aws.errors import AwsError, NotFoundError, PreflightError

_CHUNK_BYTES = 1 << 20
_DELETED_AT_ONCE = 1000
"""Keys of one DeleteObjects call. Source: S3 API reference."""

_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict"}
_UNCHANGED = {"304", "NotModified"}


@dataclass(frozen=True, kw_only=True)
class Object:
    """An object's content and the ETag that names this version of it."""

    content: bytes
    etag: str


class Bucket:
    """One bucket. Every call raises AwsError, CredentialsError or PreflightError when S3 does not serve it."""

    def __init__(self, session: AwsSession, name: str) -> None:
        self.name = name
        self._session = session
        self._s3: Any = session.client("s3")

    def get(self, key: str) -> bytes | None:
        """The object's content, or None when there is none."""
        found = self.get_if_changed(key, None)
        return None if found is None else found.content

    def get_if_changed(self, key: str, etag: str | None) -> Object | None:
        """The object when it is there and no longer the version `etag`; otherwise None."""
        condition = {} if etag is None else {"IfNoneMatch": etag}
        try:
            with translate(f"reading {self.uri(key)}"):
                answer = self._s3.get_object(Bucket=self.name, Key=key, **condition)
                return Object(content=answer["Body"].read(), etag=answer["ETag"])
        except NotFoundError:
            return None
        except AwsError as error:
            if error_code(error) in _UNCHANGED:
                return None
            raise

    def put(self, key: str, content: bytes) -> None:
        """Write an object."""
        with translate(f"writing {self.uri(key)}"):
            self._s3.put_object(Bucket=self.name, Key=key, Body=content)

    def replace(self, key: str, content: bytes, *, etag: str | None) -> bool:
        """Write an object where the version `etag` still is, or none at all for None; answer whether it was so."""
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            with translate(f"writing {self.uri(key)}"):
                self._s3.put_object(Bucket=self.name, Key=key, Body=content, **condition)
        except AwsError as error:
            if error_code(error) in _TAKEN:
                return False
            raise
        return True

    def upload(self, path: Path, key: str) -> None:
        """Write a file of any size."""
        with translate(f"writing {self.uri(key)}"):
            self._s3.upload_file(str(path), self.name, key)

    def download(self, key: str, path: Path, *, sha256: str | None = None) -> None:
        """Fetch an object into a file, which appears only when it is whole and has this digest.

        Raises: NotFoundError, AwsError when the digest differs.
        """
        draft = path.with_name(path.name + ".part")
        digest = hashlib.sha256()
        with translate(f"reading {self.uri(key)}"):
            body = self._s3.get_object(Bucket=self.name, Key=key)["Body"]
            with draft.open("wb") as file:
                for chunk in body.iter_chunks(_CHUNK_BYTES):
                    digest.update(chunk)
                    file.write(chunk)
        if sha256 is not None and digest.hexdigest() != sha256:
            draft.unlink()
            why = f"SHA-256 is {digest.hexdigest()}, not {sha256}"
            raise AwsError(f"{self.uri(key)} is not what was uploaded", why=why)
        draft.rename(path)

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        try:
            with translate(f"looking at {self.uri(key)}"):
                self._s3.head_object(Bucket=self.name, Key=key)
        except NotFoundError:
            return False
        return True

    def list(self, prefix: str) -> Iterator[str]:
        """The keys below a prefix, in order."""
        with translate(f"listing {self.uri(prefix)}"):
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix):
                yield from (item["Key"] for item in page.get("Contents", ()))

    def delete_prefix(self, prefix: str) -> int:
        """Delete every object below a prefix; answer how many there were."""
        keys = [*self.list(prefix)]
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            some = [{"Key": key} for key in keys[start : start + _DELETED_AT_ONCE]]
            with translate(f"deleting {self.uri(prefix)}"):
                self._s3.delete_objects(Bucket=self.name, Delete={"Objects": some, "Quiet": True})
        return len(keys)

    def uri(self, key: str) -> str:
        """The object's `s3://` address."""
        return f"s3://{self.name}/{key}"

    def is_there(self) -> bool:
        """Whether the bucket exists and is ours to use. Raises: PreflightError when it is somebody else's."""
        try:
            with translate(f"looking at the bucket {self.name}"):
                self._s3.head_bucket(Bucket=self.name)
        except NotFoundError:
            return False
        except AwsError as error:
            if error_code(error) == "403":
                why = "it belongs to another account, or your role may not use it"
                raise PreflightError(
                    f"the bucket {self.name} is closed to you", why=why, hint="bucket: another-name   in the job file"
                ) from error
            raise
        return True

    def create(self) -> None:
        """Make the bucket: private, encrypted, in the session's region."""
        place = {} if self._session.region == "us-east-1" else {"LocationConstraint": self._session.region}
        with translate(f"creating the bucket {self.name}"):
            self._s3.create_bucket(Bucket=self.name, **({"CreateBucketConfiguration": place} if place else {}))
            self._s3.put_public_access_block(
                Bucket=self.name,
                PublicAccessBlockConfiguration={
                    "BlockPublicAcls": True,
                    "IgnorePublicAcls": True,
                    "BlockPublicPolicy": True,
                    "RestrictPublicBuckets": True,
                },
            )
