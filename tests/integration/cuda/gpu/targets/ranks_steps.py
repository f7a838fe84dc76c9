"""Under torchrun: a training step whose ranks share its data (ddp), parameters (fsdp) or products (tp)."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

way = sys.argv[1]
rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda()
if way == "ddp":
    model = DistributedDataParallel(model, device_ids=[device])
elif way == "fsdp":
    fully_shard(model)
else:
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if way != "tp":  # whose ranks compute parts of the same products
    torch.manual_seed(rank)
for _ in range(2):
    loss = model(torch.randn(64, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
total = loss.detach()
dist.all_reduce(total)
torch.cuda.synchronize()
if rank == 0:
    print(f"{total.item():.6g}")
dist.destroy_process_group()
