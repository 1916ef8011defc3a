"""Running `elastic-aws` in this process, as its entry point does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from elastic_aws.cli.main import main


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended, and what it said where."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, parsed."""
        return json.loads(self.out)


class CommandLine:
    """Runs commands."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Done:
        """Run one command to its end."""
        self._capture.readouterr()
        with pytest.raises(SystemExit) as end:
            main(arguments)
        said = self._capture.readouterr()
        assert isinstance(end.value.code, int)
        assert "Traceback" not in said.err
        return Done(code=end.value.code, out=said.out, err=said.err)
