"""The user's code, from wherever the job file says it is, packed for the nodes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from elastic_aws.aws.bucket import Bucket
from elastic_aws.aws.session import AwsSession
from elastic_aws.bundle import BundleError, Packed, pack_code, pack_file, unpack
from elastic_aws.errors import NotFoundError, UsageError
from elastic_aws.job import JobSpec, ScriptPlace
from elastic_aws.job_file import JobFile


def pack(session: AwsSession, job: JobFile) -> Packed:
    """The user's code, wherever it is, with the script in it. Raises: UsageError."""
    source = job.source
    if source is not None:
        packed = pack_file(source) if source.is_file() else pack_code(source)
        check_script(job.spec, packed, source)
        return packed
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "code"
        folder.mkdir()
        if job.spec.script_place is ScriptPlace.IMAGE:
            (folder / "README").write_text("The code is in the container image.\n")
            return pack_code(folder)
        _fetch(session, job.spec, Path(scratch), folder)
        packed = pack_code(folder)
        check_script(job.spec, packed, folder)
        return packed


def check_script(spec: JobSpec, packed: Packed, source: Path) -> None:
    """Unpack as a node will, and look for the script.

    Raises: UsageError with what kept it out of the archive: a node cannot run what it does not get.
    """
    script = spec.program.script
    with tempfile.TemporaryDirectory() as scratch:
        archive, folder = Path(scratch) / packed.name, Path(scratch).resolve() / "unpacked"
        archive.write_bytes(packed.content)
        unpack(archive, folder)
        real = (folder / script).resolve()
        if real.is_relative_to(folder) and real.is_file():
            return
    raise UsageError(
        f"script is {spec.script!r}: it is not among the {packed.files} files that travel to the nodes",
        why=_why_left_out(source, Path(script)),
        hint="name the script in no .gitignore, or choose another one (--script)",
    )


def _why_left_out(source: Path, script: Path) -> str:
    from pathspec import GitIgnoreSpec

    top = source.resolve()
    for part in script.parts:
        if part in {".git", "__pycache__"} or part.endswith(".pyc"):
            return f"{part} never travels"
    for folder in (top / script).parents:
        if folder != top and folder.is_relative_to(top) and (folder / "pyvenv.cfg").exists():
            return f"{folder.relative_to(top)} is a virtual environment"
        ignore_file = folder / ".gitignore"
        lines = ignore_file.read_text(errors="replace").splitlines() if ignore_file.is_file() else []
        answer = GitIgnoreSpec.from_lines(lines).check_file((top / script).relative_to(folder))
        if answer.include and answer.index is not None:
            shown = ignore_file.relative_to(top) if folder.is_relative_to(top) else ignore_file
            return f"{shown} names it: {lines[answer.index]}"
    return f"the folder has no file {script}"


def _fetch(session: AwsSession, spec: JobSpec, scratch: Path, folder: Path) -> None:
    place = spec.code or spec.script
    bucket, _, key = place.removeprefix("s3://").partition("/")
    try:
        if spec.code is None:
            Bucket(session, bucket).download(key, folder / Path(key).name)
            return
        archive, unpacked = scratch / "archive", scratch / "unpacked"
        Bucket(session, bucket).download(key, archive)
    except NotFoundError as error:
        raise UsageError(f"{place} does not exist", why=error.why, hint="script: s3://bucket/train.py") from error
    try:
        unpack(archive, unpacked)
    except BundleError as error:
        said = error.why.splitlines()[0].rstrip(":")
        raise UsageError(f"code is {place!r}: it is no whole archive", why=f"{said}; allowed: tar.gz, zip") from error
    for path in unpacked.iterdir():
        path.rename(folder / path.name)
    if not (folder / spec.script).is_file():
        raise UsageError(f"script {spec.script!r} is not in {place}", why="the archive has no such file")
