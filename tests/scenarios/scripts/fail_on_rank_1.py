"""Rank 1 raises; rank 0 would wait for ever."""

import os
import threading

if os.environ["RANK"] == "1":
    raise ValueError("the data is gone")
threading.Event().wait()
