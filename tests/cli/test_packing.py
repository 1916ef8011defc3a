"""create-job's packing, before anything is created: the archive holds the script, or the job is refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from elastic_aws.aws.session import AwsSession
from elastic_aws.cli.user_code import pack
from elastic_aws.errors import UsageError
from elastic_aws.job_file import JobFile, check, load

NOWHERE = "http://127.0.0.1:9"


def session(endpoint: str = NOWHERE) -> AwsSession:
    return AwsSession("us-west-2", endpoint, local=True)


def files(folder: Path, **content: str) -> None:
    for name, text in content.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def job(folder: Path, script: str, code: str | None = "code") -> JobFile:
    file = folder / "job.yaml"
    lines = f"name: digits\nscript: {script}\nnodes: 1\ninstance_types: g5.xlarge\n"
    file.write_text(lines + (f"code: {code}\n" if code else ""))
    return load(file)


def test_a_script_that_gitignore_hides_is_refused_with_the_line_that_hides_it(tmp_path: Path) -> None:
    files(tmp_path / "code", train_py="", other_py="")
    (tmp_path / "code/.gitignore").write_text("*.log\ntrain*\n")
    with pytest.raises(UsageError, match=r"script is 'train\.py': .*: \.gitignore names it: train\*"):
        pack(session(), job(tmp_path, "train.py"))


def test_a_gitignore_deeper_or_above_the_code_is_named_by_its_place(tmp_path: Path) -> None:
    files(tmp_path / "code", a__train_py="", b__c__train_py="", other_py="")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/code/a/\n")
    (tmp_path / "code/b/.gitignore").write_text("c/\n")
    with pytest.raises(UsageError, match=rf"script is 'a/train\.py': .*: {tmp_path}/\.gitignore names it: /code/a/"):
        pack(session(), job(tmp_path, "a/train.py"))
    with pytest.raises(UsageError, match=r"script is 'b/c/train\.py': .*: b/\.gitignore names it: c/"):
        pack(session(), job(tmp_path, "b/c/train.py"))


def test_a_script_where_nothing_travels_from_is_refused(tmp_path: Path) -> None:
    files(tmp_path / "code", env__train_py="", __pycache____train_py="", other_py="")
    (tmp_path / "code/env/pyvenv.cfg").touch()
    (tmp_path / "code/__pycache__").mkdir()
    (tmp_path / "code/__pycache__/train.py").touch()
    with pytest.raises(UsageError, match="env is a virtual environment"):
        pack(session(), job(tmp_path, "env/train.py"))
    with pytest.raises(UsageError, match="__pycache__ never travels"):
        pack(session(), job(tmp_path, "__pycache__/train.py"))


def test_a_script_that_is_not_hidden_travels_by_whatever_name_it_is_called(tmp_path: Path) -> None:
    files(tmp_path / "code", real__train_py="", other_py="")
    (tmp_path / "code/.gitignore").write_text("*.py\n!train.py\n")
    (tmp_path / "code/link").symlink_to("real")
    for script in ("real/train.py", "./real/../real/train.py", "link/train.py"):
        assert pack(session(), job(tmp_path, script)).files == 3
    assert pack(session(), job(tmp_path, "code/other.py", code=None)).files == 1, "a lone script is sent as it is"


def test_an_empty_code_folder_and_one_over_the_limit_are_refused(tmp_path: Path) -> None:
    files(tmp_path / "code", train_py="")
    (tmp_path / "code/.gitignore").write_text("*\n")
    with pytest.raises(UsageError, match="nothing to pack"):
        pack(session(), job(tmp_path, "train.py"))
    (tmp_path / "code/.gitignore").unlink()
    with (tmp_path / "code/weights.pt").open("wb") as sparse:
        sparse.truncate(101 << 20)
    with pytest.raises(UsageError, match=r"too large to pack: .*weights\.pt"):
        pack(session(), job(tmp_path, "train.py"))


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[str]:
    """S3 as far as reading goes: GET /bucket/key is the file tmp_path/s3/key."""

    class Objects(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            content = (tmp_path / "s3" / self.path.partition("?")[0].split("/", 2)[2]).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"1"')
            self.end_headers()
            if with_body:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    (tmp_path / "s3").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), Objects) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def in_s3(folder: Path, script: str = "train.py") -> JobFile:
    fields = {"name": "d", "script": script, "code": "s3://b/code", "nodes": 1, "instance_types": "g5.xlarge"}
    return JobFile(spec=check(fields, where="job.yaml"), folder=folder)


def tarred(**content: str) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w:gz") as archive:
        for name, text in content.items():
            entry = tarfile.TarInfo(name.replace("_py", ".py").replace("dot_", "."))
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return plain.getvalue()


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 0x5A for byte in content[middle:])


def encrypted_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("train.py", "print()")
    content = bytearray(buffer.getvalue())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(header) + flags] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        b"\x1f\x8b\x08 no archive",
        tarred(train_py="x" * 5000)[:60],
        flipped(tarred(train_py="".join(map(str, range(9999))))),
        gzip.compress(b"no tar at all" * 100),
        encrypted_zip(),
    ],
    ids=["empty", "text", "gzip-header", "cut-off", "flipped", "no-tar", "encrypted"],
)
def test_a_damaged_archive_in_s3_is_refused(tmp_path: Path, s3: str, content: bytes) -> None:
    (tmp_path / "s3/code").write_bytes(content)
    with pytest.raises(UsageError, match=r"code is 's3://b/code': it is no whole archive: .*; allowed: tar\.gz, zip"):
        pack(session(s3), in_s3(tmp_path))


def test_an_archive_in_s3_travels_when_the_script_is_in_it(tmp_path: Path, s3: str) -> None:
    (tmp_path / "s3/code").write_bytes(tarred(train_py="", other_py=""))
    assert pack(session(s3), in_s3(tmp_path)).files == 2
    with pytest.raises(UsageError, match=r"script 'none\.py' is not in s3://b/code"):
        pack(session(s3), in_s3(tmp_path, "none.py"))
    (tmp_path / "s3/code").write_bytes(tarred(train_py="", other_py="", dot_gitignore="train.py"))
    with pytest.raises(UsageError, match=r"script is 'train\.py': .*: \.gitignore names it: train\.py"):
        pack(session(s3), in_s3(tmp_path))
