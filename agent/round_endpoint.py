"""What the fork server's first children run: a probe of the preload, and a round's TCP store."""

from __future__ import annotations

import socket
from multiprocessing.connection import Connection, wait
from multiprocessing.process import parent_process


def probe(answer: Connection) -> None:
    """Tell what could not be preloaded; an empty list when all is well."""
    from elastic_aws.agent import preload  # imported already, unless the fork server could not

    answer.send(list(preload.FAILURES))


def serve(host: str, agent: Connection) -> None:
    """Serve one TCP store on a free port of `host`; tell the port, then stay until the agent lets go of the pipe."""
    from torch.distributed import TCPStore

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((host, 0))
    port = listener.getsockname()[1]
    listener.listen(4096)
    store = TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    agent.send(port)
    parent = parent_process()
    assert parent is not None
    wait([agent, parent.sentinel])
    del store
