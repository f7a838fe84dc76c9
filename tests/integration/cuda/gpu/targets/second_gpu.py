"""The same operation on both devices; only the second one's is of interest."""

import torch

results = []
for device in ("cuda:0", "cuda:1"):
    x = torch.arange(100_000, dtype=torch.float32, device=device)
    results.append((x * 3 + (1 if device == "cuda:1" else 0)).sum().item())
    torch.cuda.synchronize(device)
print(results)
