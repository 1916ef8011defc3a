"""Where checkpoints live: a folder that all nodes see, or an S3 prefix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from elastic_aws.aws.bucket import Bucket
from elastic_aws.aws.session import AwsSession
from elastic_aws.errors import CheckpointError


class Storage(Protocol):
    """Named files below one root. A name may hold slashes."""

    root: str

    def write(self, name: str, content: bytes) -> None:
        """Write a small file; it appears whole or not at all."""

    def read(self, name: str) -> bytes | None:
        """A small file's content, or None."""

    def send(self, local: Path, name: str) -> None:
        """Write a file of any size."""

    def fetch(self, name: str, local: Path) -> None:
        """Read a file of any size into a local one."""


class FolderStorage:
    """A folder."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def _path(self, name: str) -> Path:
        return Path(self.root) / name

    def write(self, name: str, content: bytes) -> None:
        """Write a small file; it appears whole or not at all."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)

    def read(self, name: str) -> bytes | None:
        """A small file's content, or None."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def send(self, local: Path, name: str) -> None:
        """Write a file of any size."""
        self.write(name, local.read_bytes())

    def fetch(self, name: str, local: Path) -> None:
        """Read a file of any size into a local one."""
        local.write_bytes(self._path(name).read_bytes())


class BucketStorage:
    """An S3 prefix, with the credentials of the machine."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        name, _, prefix = self.root.removeprefix("s3://").partition("/")
        self._bucket = Bucket(AwsSession.from_environment(None), name)
        self._prefix = prefix

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def write(self, name: str, content: bytes) -> None:
        """Write a small file; it appears whole or not at all."""
        self._bucket.put(self._key(name), content)

    def read(self, name: str) -> bytes | None:
        """A small file's content, or None."""
        return self._bucket.get(self._key(name))

    def send(self, local: Path, name: str) -> None:
        """Write a file of any size."""
        self._bucket.upload(local, self._key(name))

    def fetch(self, name: str, local: Path) -> None:
        """Read a file of any size into a local one."""
        self._bucket.download(self._key(name), local)


def storage_at(place: str) -> Storage:
    """The storage for `s3://bucket/prefix` or a folder's path. Raises: CheckpointError for another scheme."""
    if place.startswith("s3://"):
        return BucketStorage(place)
    if "://" in place:
        raise CheckpointError(f"checkpoints cannot go to {place}", why="only s3:// and folders are known")
    return FolderStorage(place)
