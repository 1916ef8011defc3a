"""An ordinary torchrun script: sums the ranks, prints its arguments."""

import json
import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print(json.dumps({"sum": total.item(), "world": dist.get_world_size(), "arguments": sys.argv[1:]}))
print("restart", os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.destroy_process_group()
