"""torchao 0.18.0, indices by expert: more tokens than fit are stored behind the result."""

import torch
from torchao.prototype.moe_training.ep.kernels import generate_permute_indices

counts = torch.tensor([30, 50], device="cuda")
found = generate_permute_indices(counts, 2, 1, 64, 16)[0]
expected = generate_permute_indices(counts.cpu(), 2, 1, 64, 16, use_cpu=True)[0]
print("as on the CPU:", torch.equal(found.cpu(), expected), "(what is behind it is written as well)")
