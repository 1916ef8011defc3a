"""The proxy that every process of an instance is pointed to: it refuses, in words, whatever is not on this computer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSAL = "the local cloud only talks to this computer"


class RefusingProxy:
    """Listens on a free port of 127.0.0.1. `report` is told of each refused request."""

    def __init__(self, report: Callable[[str], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def refuse(self) -> None:
                report(f"refused {self.command} {self.path} of an instance: {REFUSAL}")
                self.send_error(HTTPStatus.FORBIDDEN, REFUSAL)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_CONNECT = refuse  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                """Nothing: `report` has it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="refusing proxy", daemon=True).start()

    @property
    def url(self) -> str:
        """For `http_proxy` and the like."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
