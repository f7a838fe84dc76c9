"""Operations inside a torch.cuda.CUDAGraph, replayed three times; none of them runs outside it."""

import torch

x = torch.arange(4096, dtype=torch.float32, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.sinh(x / 4096)
    torch.cumsum(y, 0, out=x)
    z = torch.atan(x)
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
print(f"{z.double().sum().item():.9f} {x[-1].item():.9f}")
