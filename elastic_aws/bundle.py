"""What travels from the laptop to the nodes: the user's code and this package, each packed the same way every time."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import elastic_aws
from elastic_aws.errors import ElasticAwsError, UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

CODE_LIMIT_BYTES = 100 * 1024 * 1024
"""Largest code folder. More than this is data or checkpoints, which belong in S3 and not in each node's boot."""

_NEVER = {".git", "__pycache__"}
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Zip's oldest time: packing must not depend on when it happens."""

_SHOWN_FILES = 3

_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError),
    *(RuntimeError, ValueError),  # zipfile's, for an encrypted member and one with an impossible name
)
"""What unpacking raises for a damaged archive."""


class BundleError(ElasticAwsError):
    """An archive is damaged, or would write outside its folder."""


@dataclass(frozen=True, kw_only=True)
class Packed:
    """An archive: its bytes, their SHA-256, its file name, and how many files it holds."""

    content: bytes
    sha256: str
    name: str
    files: int

    @property
    def size_bytes(self) -> int:
        """Size of the archive."""
        return len(self.content)


def pack_code(folder: Path, limit_bytes: int = CODE_LIMIT_BYTES) -> Packed:
    """The folder as a tar.gz that depends on nothing but the files: not on their times, owners or order.

    Leaves out what .gitignore files name (the folder's own, those below it, and those above it up to the repository's
    top), .git, __pycache__ and virtual environments.
    Raises: UsageError when nothing is left, when it is over the limit, or for a link that leads out of the folder.
    """
    return _packed({path.relative_to(folder).as_posix(): path for path in _listed(folder)}, folder, limit_bytes)


def pack_file(file: Path, limit_bytes: int = CODE_LIMIT_BYTES) -> Packed:
    """One file as `pack_code` would pack a folder that holds nothing else."""
    return _packed({file.name: file.resolve()}, file.parent, limit_bytes)


def _packed(members: dict[str, Path], folder: Path, limit_bytes: int) -> Packed:
    if not members:
        why = "it has no files, or .gitignore names all of them"
        raise UsageError(f"nothing to pack in {folder}", why=why, hint="code: the folder that holds your script")
    _check_size(members, folder, limit_bytes)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(members):
            _add(archive, name, members[name])
    content = gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)
    return Packed(content=content, sha256=hashlib.sha256(content).hexdigest(), name="code.tar.gz", files=len(members))


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    entry = tarfile.TarInfo(name)
    if path.is_symlink():
        entry.type, entry.linkname = tarfile.SYMTYPE, path.readlink().as_posix()
        archive.addfile(entry)
        return
    content = path.read_bytes()
    entry.size = len(content)
    entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    archive.addfile(entry, io.BytesIO(content))


def _check_size(members: dict[str, Path], folder: Path, limit_bytes: int) -> None:
    sizes = {name: path.lstat().st_size for name, path in members.items()}
    if (total := sum(sizes.values())) > limit_bytes:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:_SHOWN_FILES]
        shown = ", ".join(f"{name} ({readable(sizes[name])})" for name in largest)
        raise UsageError(
            f"{folder} is too large to pack: {readable(total)}, at most {readable(limit_bytes)} are allowed",
            why=f"the largest files are {shown}",
            hint="name data and checkpoints in .gitignore and keep them in S3",
        )


def readable(size_bytes: int) -> str:
    """A size for people, as in `1.5 MB`."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    kilobytes = size_bytes / 1024
    return f"{kilobytes:.1f} kB" if kilobytes < 1024 else f"{kilobytes / 1024:.1f} MB"


def _listed(folder: Path) -> Iterator[Path]:
    ignored = [rule for above in _up_to_repository(folder) if (rule := _rules(above)) is not None]
    yield from _walk(folder, folder, ignored)


def _up_to_repository(folder: Path) -> list[Path]:
    """The folders above, the repository's top first; none where it is in no repository."""
    folder = folder.resolve()
    if (folder / ".git").exists():
        return []
    above: list[Path] = []
    for parent in folder.parents:
        above.insert(0, parent)
        if (parent / ".git").exists():
            return above
    return []


def _rules(folder: Path) -> tuple[Path, GitIgnoreSpec] | None:
    file = folder / ".gitignore"
    if not file.is_file():
        return None
    from pathspec import GitIgnoreSpec

    return folder.resolve(), GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8", errors="replace").splitlines())


def _walk(top: Path, folder: Path, ignored: list[tuple[Path, GitIgnoreSpec]]) -> Iterator[Path]:
    own = _rules(folder)
    ignored = [*ignored, own] if own is not None else ignored
    for path in sorted(folder.iterdir()):
        is_folder = path.is_dir() and not path.is_symlink()
        if path.name in _NEVER or path.suffix == ".pyc" or _is_ignored(path, is_folder, ignored):
            continue
        if is_folder:
            if not (path / "pyvenv.cfg").exists():
                yield from _walk(top, path, ignored)
        elif path.is_symlink():
            _check_link(top, path)
            yield path
        elif path.is_file():
            yield path


def _is_ignored(path: Path, is_folder: bool, ignored: list[tuple[Path, GitIgnoreSpec]]) -> bool:
    """As git decides: the deepest .gitignore that says anything about the path."""
    real = path.parent.resolve() / path.name
    for folder, spec in reversed(ignored):
        name = real.relative_to(folder).as_posix() + ("/" if is_folder else "")
        if (answer := spec.check_file(name).include) is not None:
            return answer
    return False


def _check_link(top: Path, path: Path) -> None:
    if not path.resolve().is_relative_to(top.resolve()) or path.readlink().is_absolute():
        why = f"{path.relative_to(top)} points to {path.readlink()}"
        raise UsageError(
            f"a link leads out of {top}", why=why, hint="copy the file there, or name the link in .gitignore"
        )


def pack_wheel() -> Packed:
    """The running elastic_aws as a wheel: the same bytes for the same files.

    The rooms that are links in a checkout become plain folders. It names no dependencies: a node brings its own.
    """
    top = Path(elastic_aws.__file__).parent
    files = {f"elastic_aws/{name}": path.read_bytes() for name, path in _package_files(top)}
    version = elastic_aws.__version__
    info = f"elastic_aws-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: elastic-aws\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: elastic-aws\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{name},sha256={_urlsafe(content)},{len(content)}\n" for name, content in sorted(files.items())]
    files[f"{info}/RECORD"] = ("".join(record) + f"{info}/RECORD,,\n").encode()
    content = _zipped(files)
    name = f"elastic_aws-{version}-py3-none-any.whl"
    return Packed(content=content, sha256=hashlib.sha256(content).hexdigest(), name=name, files=len(files))


def _package_files(folder: Path, prefix: str = "") -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in _NEVER:
                yield from _package_files(path, f"{prefix}{path.name}/")
        elif path.suffix != ".pyc":
            yield prefix + path.name, path


def _urlsafe(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        # RECORD comes last, as PEP 427 recommends.
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name.endswith("/RECORD"), name)):
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: the mode below counts
            entry.external_attr = (0o100755 if name.endswith(".sh") else 0o100644) << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar (gzipped or not) or a zip into a folder that appears only when it is whole.

    A folder that is there already is left as it is: folders are named by their archive's digest.
    Raises: BundleError for a damaged archive or a member that would land outside the folder.
    """
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _extract(archive, draft)
        draft.chmod(0o755)
        draft.rename(folder)
    except _DAMAGED as error:
        raise BundleError(f"{archive.name} cannot be unpacked", why=str(error) or type(error).__name__) from error
    except OSError:
        if not folder.exists():  # another process was not the one that finished first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _extract(archive: Path, folder: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                if not (folder / name).resolve().is_relative_to(folder.resolve()):
                    raise BundleError(f"{archive.name} is refused", why=f"{name} would land outside its folder")
            zipped.extractall(folder)  # noqa: S202 - every name was checked
        return
    with tarfile.open(archive) as tar:
        # Python's own filter refuses absolute names, `..`, devices, and links that lead out.
        tar.extractall(folder, filter="data")
