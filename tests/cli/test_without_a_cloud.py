"""Commands that need no cloud, and input that is refused before one is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from elastic_aws import __version__
from elastic_aws.errors import ExitCode
from tests.cli.command_line import CommandLine

ROOT = Path(__file__).parents[2]


def test_the_installed_command_helps_without_importing_what_it_does_not_need() -> None:
    command = [str(Path(sys.executable).parent / "elastic-aws"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "create-job" in done.stdout
    assert "\n    elastic-aws local up\n" in done.stdout
    heavy = "('boto3', 'pydantic', 'yaml', 'torch')"
    code = f"import sys, elastic_aws.cli.main; print([name for name in {heavy} if name in sys.modules])"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "[]"


def test_version_is_told(elastic_aws: CommandLine) -> None:
    assert elastic_aws("version").out.strip() == __version__
    assert __version__ in elastic_aws("--version").out


@pytest.mark.parametrize("command", ["create-job", "scale", "status", "list", "logs", "events", "delete-job", "local"])
def test_every_command_has_help(elastic_aws: CommandLine, command: str) -> None:
    done = elastic_aws(command, "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: elastic-aws " + command)


def test_init_writes_a_job_file_that_is_valid_once_its_script_exists(elastic_aws: CommandLine, tmp_path: Path) -> None:
    assert elastic_aws("init").code == 0
    (tmp_path / "train.py").touch()
    assert elastic_aws("synth", "job.yaml").code == 0
    again = elastic_aws("init")
    assert again.code == ExitCode.USAGE
    assert "job.yaml exists" in again.err


def test_the_published_schema_is_current_and_takes_the_examples(elastic_aws: CommandLine) -> None:
    published = json.loads((ROOT / "docs/job.schema.json").read_text())
    assert published == elastic_aws("schema").json, "elastic-aws schema > docs/job.schema.json"
    for example in (ROOT / "examples/imagenet").glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(example.read_text()), published)


def test_synth_writes_the_same_template_every_time_and_asks_nobody(
    elastic_aws: CommandLine, job_file: Path, tmp_path: Path
) -> None:
    assert elastic_aws("synth", str(job_file), "-o", "out").code == 0
    written = (tmp_path / "out/elastic-aws-digits.json").read_text()
    assert json.loads(written) == elastic_aws("synth", str(job_file)).json


def test_an_argument_arrives_unchanged_in_the_template(elastic_aws: CommandLine, job_file: Path) -> None:
    odd = ["two words", "'single' \"double\"", "$HOME `id`", "a\nb", "größe ☃", "--flag=${Bucket}"]
    done = elastic_aws("synth", str(job_file), "--", *odd)
    lines = (line for text in texts(done.json) for line in text.splitlines())
    config = next(json.loads(line) for line in lines if '"role":"worker"' in line)
    assert config["program"]["arguments"] == odd


def texts(tree: Any) -> Iterator[str]:
    """Every text in a JSON structure."""
    if isinstance(tree, str):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from texts(part)


def broken_yaml(file: Path) -> None:
    file.write_text("name: digits\nnodes: [1\nscript: x\n")


def unknown_field(file: Path) -> None:
    file.write_text(file.read_text() + "nodez: 3\n")


def missing_script(file: Path) -> None:
    (file.parent / "code/train.py").unlink()


def outside_script(file: Path) -> None:
    (file.parent / "train.py").touch()
    missing_script(file)


def list_of_nodes(file: Path) -> None:
    file.write_text(file.read_text().replace("{min: 1, max: 3, target: 1}", "[1, 2]"))


def list_as_a_key(file: Path) -> None:
    file.write_text(file.read_text() + "? [a]\n: b\n")


def as_it_is(file: Path) -> None:
    assert file.exists()


@pytest.mark.parametrize(
    ("spoil", "flags", "said"),
    [
        (unknown_field, [], "line 8: unknown field nodez; did you mean nodes?"),
        (broken_yaml, [], "line 3, column 7: broken YAML"),
        (as_it_is, ["--nodes", "8:2"], "min (8) is greater than max (2)"),
        (as_it_is, ["--target", "9"], "target (9) is outside 1:3"),
        (as_it_is, ["--name", "My Job"], "name is 'My Job'"),
        (as_it_is, ["--name", "a" * 41], "at most 40 characters"),
        (missing_script, [], "no such file in the code folder"),
        (outside_script, [], "outside the code folder"),
        (as_it_is, ["--instance-type", "c7i.48xlarge"], "not in elastic-aws's table of known types"),
        (list_of_nodes, ["--target", "2"], "line 4: nodes is [1, 2]"),
        (list_as_a_key, [], "line 8, column 3: broken YAML: a field's name must be a text"),
        (as_it_is, ["--image", ""], "image is ''"),
        (as_it_is, ["--script", "s3://bucket/"], "script is 's3://bucket/'"),
        (as_it_is, ["--env", "A"], "--env is 'A': it has no =; allowed: NAME=VALUE"),
        (as_it_is, ["--env", "A-B=1"], "'A-B' is no name of an environment variable"),
        (as_it_is, ["--venv-python", "python"], "allowed: an absolute path"),
        (as_it_is, ["--requirement", ""], "venv.requirements.0 is ''"),
        (as_it_is, ["--requirement", "a", "--image", "b"], "image and venv exclude each other"),
        (as_it_is, ["--max-hours", "nan"], "max_hours is nan"),
        (as_it_is, ["--", "ok", "\udcff"], "arguments.1 is '\\udcff': not UTF-8 text"),
        (as_it_is, ["--instance-type", "g5.huge"], "no such instance type"),
        (as_it_is, ["--instance-type", "c7i.large", "--workers-per-node", "gpu"], "c7i.large has no GPU"),
        (as_it_is, ["--workers-per-node", "lots"], "allowed: auto"),
    ],
)
def test_a_bad_job_is_refused_before_any_cloud_is_asked(
    elastic_aws: CommandLine, job_file: Path, spoil: Callable[[Path], None], flags: list[str], said: str
) -> None:
    spoil(job_file)
    done = elastic_aws("--local", "create-job", str(job_file), *flags)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert said in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["create-job", "none.yaml"], ExitCode.USAGE, "no job file none.yaml"),
        (["create-job"], ExitCode.USAGE, "Missing argument 'FILE'"),
        (["scael"], ExitCode.USAGE, "No such command"),
        (["--local", "list"], ExitCode.PREFLIGHT, "elastic-aws local up"),
        (["--local", "status", "digits"], ExitCode.PREFLIGHT, "the local cloud is not running"),
        (["local", "status"], ExitCode.PREFLIGHT, "the local cloud is not running"),
        (["list"], ExitCode.PREFLIGHT, "no AWS region"),
        (["--region", "us-wset-2", "list"], ExitCode.PREFLIGHT, "--region us-west-2"),
        (["--region", "us-west-2", "list"], ExitCode.CREDENTIALS, "no AWS credentials"),
        (["--region", "us-west-2", "interrupt", "digits"], ExitCode.USAGE, "on the local cloud only"),
        (["--local", "interrupt", "digits", "--notice", "nan"], ExitCode.USAGE, "'--notice': nan; allowed: a number"),
        (["--local", "interrupt", "digits", "--notice", "inf"], ExitCode.USAGE, "from 0 to 3600"),
        (["--local", "interrupt", "digits", "--notice", "-1"], ExitCode.USAGE, "from 0 to 3600"),
        (["create-job", "/proc/self/mem"], ExitCode.USAGE, "/proc/self/mem cannot be read"),
        (["create-job", "."], ExitCode.USAGE, ". cannot be read"),
    ],
)
def test_what_cannot_be_done_is_told_with_its_own_exit_code(
    elastic_aws: CommandLine, arguments: list[str], code: ExitCode, said: str
) -> None:
    done = elastic_aws(*arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


@pytest.mark.parametrize("out", ["/proc/x", "job.yaml/out"])
def test_a_folder_that_cannot_be_written_is_told(elastic_aws: CommandLine, job_file: Path, out: str) -> None:
    done = elastic_aws("synth", str(job_file), "-o", out)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert f"--out is '{out}': {out}/elastic-aws-digits.json cannot be written" in done.err


def test_a_full_disk_is_one_line_and_no_traceback() -> None:
    command = [str(Path(sys.executable).parent / "elastic-aws"), "schema"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (ExitCode.FAILURE, "error: No space left on device\n")


def test_an_argument_that_is_no_utf_8_is_refused_by_the_real_process(job_file: Path) -> None:
    command = [str(Path(sys.executable).parent / "elastic-aws"), "synth", str(job_file), "--", b"\xff"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "arguments.0 is '\\udcff': not UTF-8 text" in done.stderr


def test_a_region_that_aws_does_not_have_is_refused_where_the_job_file_names_it(
    elastic_aws: CommandLine, job_file: Path
) -> None:
    job_file.write_text(job_file.read_text() + "region: us-wset-2\n")
    done = elastic_aws("create-job", str(job_file))
    assert (done.code, done.out) == (ExitCode.PREFLIGHT, "")
    assert "us-west-2" in done.err


def test_create_job_without_credentials_creates_nothing(elastic_aws: CommandLine, job_file: Path) -> None:
    done = elastic_aws("--region", "us-west-2", "create-job", str(job_file))
    assert done.code == ExitCode.CREDENTIALS
    assert "aws configure" in done.err
