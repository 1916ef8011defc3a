"""The HTTP endpoint of the local cloud: AWS's calls by moto, with its errors made AWS's, and the local cloud's own."""

from __future__ import annotations

import json
import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any
from xml.sax.saxutils import escape

from moto.core.exceptions import ServiceException
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from elastic_aws.local_cloud.control import Control

CONTROL_PATH = "/_elastic-aws/"
"""Below it are the local cloud's own calls; no AWS service has such a path, and no bucket such a name."""

StartResponse = Callable[..., Any]
Environ = dict[str, Any]

_log = logging.getLogger("local_cloud")


class Gateway:
    """The WSGI application. `lock` is held for every call but S3's, because moto's services share state."""

    def __init__(self, *, lock: threading.RLock, control: Control) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = lock
        self._control = control

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if path.startswith(CONTROL_PATH):
            return self._own(environ, path.removeprefix(CONTROL_PATH), start_response)
        try:
            if service_of(environ) == "s3":
                return self._s3(environ, start_response)
            with self._lock:
                return [b"".join(self._moto(environ, start_response))]
        except NotImplementedError as error:
            _log.warning("not implemented: %s %s: %s", environ.get("REQUEST_METHOD"), path, error)
            return refuse(environ, start_response, 400, "InvalidAction", f"The local cloud cannot do this: {error}")
        except ServiceException as error:
            return refuse(environ, start_response, 400, error.code, error.message)
        except Exception as error:  # noqa: BLE001 - the server's border: whatever goes wrong inside is AWS's InternalFailure outside
            _log.error("%s", traceback.format_exc())
            return refuse(environ, start_response, 500, "InternalFailure", f"The local cloud failed: {error!r}")

    def _s3(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "POST" or "uploadId=" not in environ.get("QUERY_STRING", ""):
            answer: Iterable[bytes] = self._moto(environ, start_response)
            return answer
        kept: list[Any] = []

        def keep(status: str, headers: list[tuple[str, str]], *_: Any) -> Callable[[bytes], None]:
            kept[:] = status, headers
            return lambda _: None

        # moto names the root of this answer otherwise than AWS; s3torchconnector's parser minds.
        body = b"".join(self._moto(environ, keep)).replace(b"MultipartUploadResponse", b"MultipartUploadResult")
        status, headers = kept
        others = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start_response(status, [*others, ("Content-Length", str(len(body)))])
        return [body]

    def _own(self, environ: Environ, name: str, start_response: StartResponse) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b"{}"
        status, answer = self._control.call(environ["REQUEST_METHOD"], name, json.loads(body))
        content = json.dumps(answer).encode()
        start_response(f"{status} -", [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
        return [content]


def service_of(environ: Environ) -> str:
    """The service that a request is signed for; S3 where it is not signed."""
    match = re.search(r"Credential=[^/]+/\d+/[^/]*/([^/]+)/aws4_request", environ.get("HTTP_AUTHORIZATION", ""))
    if match:
        return match[1].lower()
    query = re.search(r"X-Amz-Credential=[^&]*%2F([^%&]+)%2Faws4_request", environ.get("QUERY_STRING", ""))
    return query[1].lower() if query else "s3"


def refuse(environ: Environ, start_response: StartResponse, status: int, code: str, message: str) -> list[bytes]:
    """An error as AWS writes it, in the protocol of the request: JSON, EC2's XML, S3's XML or query XML."""
    service = service_of(environ)
    if "json" in environ.get("CONTENT_TYPE", "") or "HTTP_X_AMZ_TARGET" in environ:
        kind, text = "application/x-amz-json-1.1", json.dumps({"__type": code, "message": message})
    else:
        kind = "text/xml"
        inner = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
        request = "<RequestId>00000000-0000-0000-0000-000000000000</RequestId>"
        if service == "ec2":
            text = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>0</RequestID></Response>"
        elif service == "s3":
            text = f"<Error>{inner}{request}</Error>"
        else:
            text = f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error>{request}</ErrorResponse>"
    body = text.encode()
    start_response(f"{status} -", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def make_gateway_server(gateway: Callable[..., Any]) -> BaseWSGIServer:
    """A server on a free port of 127.0.0.1, a thread a request. It listens already; `serve_forever` is the caller's."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    return make_server("127.0.0.1", 0, gateway, threaded=True, request_handler=MotoRequestHandler)
