"""Under torchrun: all-reduces and barrier of torch's symmetric memory, Triton kernels over peers' buffers."""

import os

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
import triton
import triton.language as tl


@triton.jit
def add_peer(own_ptr, peer_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    own = tl.load(own_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, own + tl.load(peer_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def sum_of_buffers(table, out_ptr, n, RANKS: tl.constexpr, BLOCK: tl.constexpr):
    """The table of all ranks' buffers is in device memory."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    buffers = table.to(tl.pointer_type(tl.uint64))
    total = tl.zeros((BLOCK,), tl.float32)
    for rank in tl.static_range(RANKS):
        buffer = tl.load(buffers + rank).to(tl.pointer_type(tl.float32))
        total += tl.load(buffer + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, total, mask=mask)


@triton.jit
def put(peer_ptr, value_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(peer_ptr + offsets, 2 * tl.load(value_ptr + offsets, mask=mask), mask=mask)


rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
ranks, group = dist.get_world_size(), dist.group.WORLD.group_name
n = 50_000
buffer = symm_mem.empty(n, dtype=torch.float32, device=torch.device("cuda", device))
memory = symm_mem.rendezvous(buffer, dist.group.WORLD)
peer = memory.get_buffer((rank + 1) % ranks, (n,), torch.float32)
values = torch.arange(n, device="cuda", dtype=torch.float32) * (rank + 1)
grid = (triton.cdiv(n, 1024),)
results = []


def meet():
    """Both ranks are here, and their devices are done."""
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()


buffer.copy_(values)
meet()
out = torch.empty_like(values)
add_peer[grid](buffer, peer, out, n, BLOCK=1024)
results.append(out.clone())
sum_of_buffers[grid](memory.buffer_ptrs_dev, out, n, RANKS=ranks, BLOCK=1024)
results.append(out.clone())
meet()
put[grid](peer, values, n, BLOCK=1024)
meet()
results.append(buffer.clone())
meet()
results.append(torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", group))
meet()
torch.ops.symm_mem.two_shot_all_reduce_(buffer, "sum", group)
results.append(buffer.clone())
memory.barrier()
meet()
if rank == 0:
    print(*(f"{result.double().sum().item():.9g}" for result in results))
dist.destroy_process_group()
