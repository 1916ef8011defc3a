"""What is packed is the same every time, holds what it must, and unpacks nowhere else."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from elastic_aws import bundle
from elastic_aws.bundle import BundleError, Packed, pack_code, pack_file, pack_wheel, unpack
from elastic_aws.errors import UsageError


def names(packed: Packed) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        return archive.getnames()


def files(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def test_the_same_files_give_the_same_archive_whenever_and_wherever_they_are_packed(tmp_path: Path) -> None:
    for folder, order in (("one", ("b.py", "a/c.py")), ("two", ("a/c.py", "b.py"))):
        files(tmp_path / folder, *order)
    os.utime(tmp_path / "two/b.py", (1, 1))
    assert pack_code(tmp_path / "one").content == pack_code(tmp_path / "two").content


def test_a_changed_file_or_mode_changes_the_digest(tmp_path: Path) -> None:
    files(tmp_path, "a.py")
    before = pack_code(tmp_path).sha256
    (tmp_path / "a.py").chmod(0o755)
    executable = pack_code(tmp_path).sha256
    (tmp_path / "a.py").write_text("other")
    assert len({before, executable, pack_code(tmp_path).sha256}) == 3


def test_what_git_ignores_stays_at_home(tmp_path: Path) -> None:
    files(
        tmp_path, "repo/code/a.py", "repo/code/a.log", "repo/code/keep.log", "repo/code/data/x", "repo/code/sub/b.tmp"
    )
    files(
        tmp_path,
        "repo/code/__pycache__/a.pyc",
        "repo/code/sub/.git/config",
        "repo/code/venv/pyvenv.cfg",
        "repo/code/up",
    )
    (tmp_path / "repo/.git").mkdir()
    (tmp_path / "repo/.gitignore").write_text("*.log\n/code/up\n")
    (tmp_path / "repo/code/.gitignore").write_text("data/\n!keep.log\n")
    (tmp_path / "repo/code/sub/.gitignore").write_text("*.tmp\n")
    assert names(pack_code(tmp_path / "repo/code")) == [".gitignore", "a.py", "keep.log", "sub/.gitignore"]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to pack"):
        pack_code(tmp_path)


def test_a_folder_over_the_limit_is_refused_with_its_largest_files(tmp_path: Path) -> None:
    files(tmp_path, "a.py")
    (tmp_path / "weights.pt").write_bytes(bytes(3000))
    with pytest.raises(UsageError, match=r"at most 2\.0 kB.*weights\.pt \(2\.9 kB\)"):
        pack_code(tmp_path, limit_bytes=2048)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_stays_a_link(tmp_path: Path) -> None:
    files(tmp_path, "secret", "code/a.py")
    (tmp_path / "code/b.py").symlink_to("a.py")
    unpacked = tmp_path / "unpacked"
    unpack(written(tmp_path, pack_code(tmp_path / "code")), unpacked)
    assert (unpacked / "b.py").readlink() == Path("a.py")
    (tmp_path / "code/out").symlink_to("../secret")
    with pytest.raises(UsageError, match="leads out"):
        pack_code(tmp_path / "code")


def written(folder: Path, packed: Packed) -> Path:
    path = folder / packed.name
    path.write_bytes(packed.content)
    return path


def test_one_file_travels_alone_and_arrives_as_it_was(tmp_path: Path) -> None:
    files(tmp_path, "a.py", "b.py")
    packed = pack_file(tmp_path / "a.py")
    unpack(written(tmp_path, packed), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.py"]
    assert (tmp_path / "out/a.py").read_text() == "a.py"


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    files(tmp_path, "code/a.py", "out/old")
    unpack(written(tmp_path, pack_code(tmp_path / "code")), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["old"]


def hostile_tar(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../outside"), io.BytesIO())


def hostile_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../outside", "")


def damaged(path: Path) -> None:
    path.write_bytes(b"\x1f\x8b\x08 not an archive")


@pytest.mark.parametrize("make", [hostile_tar, hostile_zip, damaged])
def test_a_hostile_or_damaged_archive_leaves_nothing_behind(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "archive")
    with pytest.raises(BundleError):
        unpack(tmp_path / "archive", tmp_path / "place/out")
    assert [*tmp_path.rglob("out*")] == []
    assert [*(tmp_path / "place").iterdir()] == []


def test_the_wheel_is_the_same_every_time_and_its_record_is_true() -> None:
    packed = pack_wheel()
    assert packed.content == pack_wheel().content
    with zipfile.ZipFile(io.BytesIO(packed.content)) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
        rows = [line.split(",") for line in wheel.read(record).decode().splitlines()]
        assert sorted(row[0] for row in rows) == sorted(wheel.namelist())
        for name, digest, size in (row for row in rows if row[0] != record):
            content = wheel.read(name)
            assert int(size) == len(content)
            own = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={own}"


def test_the_wheel_holds_every_room_and_runs_without_this_checkout(tmp_path: Path) -> None:
    unpack(written(tmp_path, pack_wheel()), tmp_path / "wheel")
    for needed in ("agent/__main__.py", "agent/requirements.txt", "templates/boot/worker.sh", "store/etcd.proto"):
        assert (tmp_path / "wheel/elastic_aws" / needed).is_file()
    # -S keeps the editable install of this checkout out; the package's core needs only the standard library here.
    code = "import elastic_aws.bundle as b, elastic_aws; print(elastic_aws.__file__); print(b.pack_wheel().sha256)"
    place = {"PYTHONPATH": str(tmp_path / "wheel"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, env=place, capture_output=True, text=True, check=True
    )
    file, digest = done.stdout.split()
    assert file.startswith(str(tmp_path))
    assert digest == pack_wheel().sha256, "a packed package packs itself again to the same bytes"


def test_sizes_are_readable() -> None:
    assert [bundle.readable(size) for size in (10, 2048, 3 << 20)] == ["10 bytes", "2.0 kB", "3.0 MB"]
