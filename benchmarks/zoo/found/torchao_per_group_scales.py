"""torchao 0.18.0, scales per group: a block masks its own lanes, not the matrix's rows or columns."""

import torch
from torchao.prototype.moe_training.kernels.jagged_float8_scales import (
    triton_fp8_per_group_colwise_scales,
    triton_fp8_per_group_rowwise_scales,
)

torch.manual_seed(0)
groups, K = (16, 48), 130
ends = torch.tensor(groups, device="cuda").cumsum(0).to(torch.int32)
x = torch.randn(sum(groups), K, device="cuda", dtype=torch.bfloat16)
parts = x.float().split(groups)
expected = torch.cat([448 / part.abs().amax(0) for part in parts])
for function, given in (
    (triton_fp8_per_group_colwise_scales, x),
    (triton_fp8_per_group_rowwise_scales, x.t().contiguous()),
):
    data, scales = function(given, ends, torch.float8_e4m3fn)
    off = ((scales - expected).abs() > 1e-2 * expected).sum()
    rows = torch.cat([448 / part.abs().amax(0)[None].expand(len(part), K) for part in parts])
    back = data.float() / (rows if given is x else rows.t())
    print("columns:" if given is x else "rows:", "scales that are wrong:", int(off), "of", len(expected))
    print("    largest difference of values:", float((back - given.float()).abs().nan_to_num(1e9).max()))
