"""`aws` of a local instance: what boot scripts use of the AWS command line, on botocore.

`s3 cp` between a bucket and a file or `-`, `configure set`, and every service's operations with their parameters as
words, JSON or `Key=value` shorthand, `--query` and `--output text|json`. Credentials and region come as on EC2.
"""

from __future__ import annotations

import configparser
import json
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import botocore.session
import jmespath
from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError, UnknownServiceError
from botocore.utils import InstanceMetadataRegionFetcher

sys.path.append(str(Path(__file__).parents[3]))  # it is started as a program, not as a part of the package
from elastic_aws.local_cloud.loopback_only import allow_loopback_only

_IGNORED_FLAGS = {"--no-cli-pager", "--only-show-errors", "--quiet", "--no-progress", "--no-paginate", "--debug"}
_COMMON = {
    "--region",
    "--output",
    "--query",
    "--endpoint-url",
    "--cli-connect-timeout",
    "--cli-read-timeout",
    "--profile",
}


def main(argv: list[str]) -> int:
    """Run one command line; answer the real command's exit status: 252 for usage, 253 for set-up, 254 for a refusal."""
    allow_loopback_only(_warn)
    if "--version" in argv:
        sys.stdout.write("aws-cli/2.0.0 elastic-aws-local-cloud\n")
        return 0
    words, common = _split(argv)
    if len(words) < 2:
        _usage("a service and a command are needed")
    try:
        match words:
            case ["configure", "set", name, value]:
                _configure(name, value)
            case ["s3", "cp", source, target]:
                _copy(_client("s3", common), source, target)
            case ["s3" | "configure", command, *_]:
                known = "s3 cp FROM TO and configure set KEY VALUE"
                _usage(f"the local cloud's aws cannot {words[0]} {command}; it can {known}")
            case _:
                _operate(words, common)
    except ClientError as error:
        sys.stderr.write(f"\n{error}\n")
        return 254
    except (BotoCoreError, OSError) as error:
        sys.stderr.write(f"\n{error}\n")
        return 253
    return 0


def _warn(text: str) -> None:
    sys.stderr.write(f"aws: {text}\n")


def _usage(message: str) -> NoReturn:
    sys.stderr.write(f"aws: {message}\n")
    sys.exit(252)


def _split(argv: list[str]) -> tuple[list[str], dict[str, str]]:
    words: list[str] = []
    common: dict[str, str] = {}
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _COMMON:
            common[name] = value if equals else next(rest, "")
        elif word not in _IGNORED_FLAGS:
            words.append(word)
    return words, common


def _client(service: str, common: dict[str, str]) -> Any:
    session = botocore.session.get_session()
    region = common.get("--region") or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not region:
        own = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]  # never the default, which is the address of a real EC2
        region = InstanceMetadataRegionFetcher(base_url=f"{own}/").retrieve_region()
    return session.create_client(service, region_name=region, endpoint_url=common.get("--endpoint-url"))


def _configure(name: str, value: str) -> None:
    profile, _, key = name.rpartition(".")
    file = Path.home() / ".aws/config"
    file.parent.mkdir(exist_ok=True)
    config = configparser.ConfigParser()
    config.read(file)
    config.setdefault(
        profile or "default", config[profile or "default"] if config.has_section(profile or "default") else {}
    )
    config[profile or "default"][key] = value
    with file.open("w") as out:
        config.write(out)


def _copy(client: Any, source: str, target: str) -> None:
    if source.startswith("s3://") and not target.startswith("s3://"):
        bucket, key = _place(source)
        body = client.get_object(Bucket=bucket, Key=key)["Body"]
        if target == "-":
            shutil.copyfileobj(body, sys.stdout.buffer)
            return
        file = Path(target) / Path(key).name if Path(target).is_dir() else Path(target)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as out:
            shutil.copyfileobj(body, out)
    elif target.startswith("s3://") and not source.startswith("s3://"):
        bucket, key = _place(target)
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        client.put_object(Bucket=bucket, Key=key + Path(source).name if key.endswith("/") else key, Body=content)
    else:
        _usage("s3 cp copies between a bucket and a file")


def _place(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def _operate(words: list[str], common: dict[str, str]) -> None:
    service, command, *options = words
    try:
        client = _client(service, common)
    except UnknownServiceError as error:
        _usage(str(error))
    if command == "wait" and options:
        name = options[0].replace("-", "_")
        if name not in client.waiter_names:
            _usage(f"{service} has no waiter {options[0]}")
        waiter = client.get_waiter(name)
        waiter.wait(**_parameters(client, waiter.config.operation, options[1:]))
        return
    operations = {xform_name(name, "-"): name for name in client.meta.service_model.operation_names}
    if command not in operations:
        _usage(f"{service} has no command {command}")
    answer = getattr(client, xform_name(operations[command]))(**_parameters(client, operations[command], options))
    answer.pop("ResponseMetadata", None)
    _show(answer, common)


def _parameters(client: Any, operation: str, options: list[str]) -> dict[str, Any]:
    shape = client.meta.service_model.operation_model(operation).input_shape
    members = {
        f"--{xform_name(name, '-')}": (name, member) for name, member in (shape.members if shape else {}).items()
    }
    given: dict[str, Any] = {}
    while options:
        option, equals, joined = options.pop(0).partition("=")
        negative = option.replace("--no-", "--", 1)
        if option not in members and negative not in members:
            _usage(f"unknown option {option}")
        name, member = members.get(option) or members[negative]
        if member.type_name == "boolean":
            given[name] = option in members
            continue
        values = [joined] if equals else []
        while options and not options[0].startswith("--"):
            values.append(options.pop(0))
        if not values:
            _usage(f"{option} needs a value")
        given[name] = _value(member, values)
    return given


def _value(shape: Any, words: list[str]) -> Any:
    text = words[0]
    if text.startswith(("file://", "fileb://")):
        text = Path(text.partition("://")[2]).read_text()
    if shape.type_name in {"structure", "list", "map"} and text.lstrip().startswith(("{", "[")):
        return json.loads(text)
    if shape.type_name == "list":
        return [_value(shape.member, [word]) for word in words]
    if shape.type_name in {"structure", "map"}:
        return _shorthand(shape, text)
    if shape.type_name in {"integer", "long"}:
        return int(text)
    return text.encode() if shape.type_name == "blob" else text


def _shorthand(shape: Any, text: str) -> dict[str, Any]:
    """`Name=tag:x,Values=a,b`: a part without `=` belongs to the list before it."""
    pairs: dict[str, list[str]] = {}
    name = ""
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals:
            name = key
            pairs[name] = [value]
        else:
            pairs.setdefault(name, []).append(part)
    if shape.type_name == "map":
        return {key: ",".join(values) for key, values in pairs.items()}
    unknown = [key for key in pairs if key not in shape.members]
    if unknown:
        _usage(f"unknown key {unknown[0]!r} in {text!r}")
    return {key: _value(shape.members[key], values) for key, values in pairs.items()}


def _show(answer: Any, common: dict[str, str]) -> None:
    if "--query" in common:
        answer = jmespath.search(common["--query"], answer)
    if common.get("--output") == "text":
        for line in _lines(answer):
            sys.stdout.write(line + "\n")
    elif answer not in ({}, None):
        json.dump(answer, sys.stdout, indent=4, default=_plain)
        sys.stdout.write("\n")


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _lines(answer: Any) -> list[str]:
    """As the real command: a list of scalars is one line with tabs, `None` stands for nothing."""
    if isinstance(answer, dict):
        return _lines(list(answer.values()))
    if isinstance(answer, list):
        if not any(isinstance(one, (dict, list)) for one in answer):
            return ["\t".join(str(one) for one in answer)]
        return [line for one in answer for line in _lines(one)]
    return [str(answer)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
