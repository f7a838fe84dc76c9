"""xformers 0.0.35, index_select_cat of a matrix with gaps: the result is stored by its strides."""

import torch
from xformers.ops import index_select_cat

torch.manual_seed(0)
for source in (torch.randn(60, 5, device="cuda").t(), torch.randn(5, 63, device="cuda")[:, :60]):
    index = torch.tensor([4, 0, 2], device="cuda")
    found = index_select_cat([source], [index])
    print("as torch says:", torch.equal(found, source[index].flatten()))
