"""fla-core 0.6.0, DPLR delta rule with heads whose rows are no multiple of 16 bytes apart, backward."""

import torch
import torch.nn.functional as F
from fla.ops.generalized_delta_rule import chunk_dplr_delta_rule

torch.manual_seed(0)
B, T, H, D = 1, 65, 1, 50


def leaf(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).requires_grad_()


a = F.normalize(torch.randn(B, T, H, D, device="cuda"), dim=-1).bfloat16()
gk = F.logsigmoid(torch.randn(B, T, H, D, device="cuda")).requires_grad_()
o, _ = chunk_dplr_delta_rule(
    leaf(B, T, H, D),
    leaf(B, T, H, D),
    leaf(B, T, H, D),
    (-a).requires_grad_(),
    (a * 0.5).requires_grad_(),
    gk,
)
o.sum().backward()
print("gradient of gk, finite:", bool(gk.grad.isfinite().all()), float(gk.grad.abs().sum()))
