"""Waits for a drain order, and answers it as the training library does."""

import os
import socket
import sys
from pathlib import Path

from elastic_aws.worker_channel import Drained, DrainOrder, Hello, decode_line, encode_line

rank = int(os.environ["RANK"])
channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["ELASTIC_AWS_AGENT_SOCKET"])
lines = channel.makefile("rb")
hello = Hello(round=int(os.environ["ELASTIC_AWS_ROUND"]), rank=rank, local_rank=rank, pid=os.getpid())
channel.sendall(encode_line(hello))
for folder in sys.argv[1:]:
    file = Path(folder) / f"here-{rank}"
    Path(f"{folder}/new-{rank}").write_text(str(os.getpid()))
    Path(f"{folder}/new-{rank}").rename(file)
assert isinstance(decode_line(lines.readline()), DrainOrder)
channel.sendall(encode_line(Drained(step=7)))
