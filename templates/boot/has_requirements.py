"""Exit 0 when this Python, 3.11 or newer, has all that a requirements file asks for; otherwise pip has work to do."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def met(line: str) -> bool:
    """Whether one requirement is met. Without `packaging` the answer is no: pip will know."""
    try:
        from packaging.requirements import Requirement

        wanted = Requirement(line)
        return wanted.specifier.contains(version(wanted.name), prereleases=True)
    except (ImportError, PackageNotFoundError):
        return False


lines = [line.partition("#")[0].strip() for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
sys.exit(sys.version_info < (3, 11) or not all(met(line) for line in lines if line))
