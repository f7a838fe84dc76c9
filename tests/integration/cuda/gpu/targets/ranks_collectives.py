"""Under torchrun: each of NCCL's collectives once, over what a kernel of torch's has made."""

import os

import torch
import torch.distributed as dist

rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
ranks = dist.get_world_size()
x = torch.arange(100_000, device="cuda") * (rank + 1.0)
dist.all_reduce(x)
parts = torch.empty(ranks * x.numel(), device="cuda")
dist.all_gather_into_tensor(parts, x + rank)
piece = torch.empty(x.numel() // ranks, device="cuda")
dist.reduce_scatter_tensor(piece, x)
dist.broadcast(piece, src=1)
if rank == 0:
    dist.send(piece * 2, dst=1)
else:
    dist.recv(piece, src=0)
total = (parts.sum() + piece.sum()).item()
dist.all_reduce(x)
torch.cuda.synchronize()
if rank == 0:
    print(f"{total:.6g} {x.sum().item():.6g}")
dist.destroy_process_group()
