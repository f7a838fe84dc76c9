"""Under torchrun: each rank launches the same kernel on its own device, between two all-reduces."""

import os

import torch
import torch.distributed as dist

rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
x = torch.full((100_000,), float(rank + 1), device="cuda")
dist.all_reduce(x)
y = x * (rank + 2.0)
dist.all_reduce(y)
total = y.sum().item()
if rank == 0:
    print(total)
dist.destroy_process_group()
