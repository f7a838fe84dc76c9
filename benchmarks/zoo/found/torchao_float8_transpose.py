"""torchao 0.18.0, float8 of a transposed matrix: the store's mask takes columns for rows."""

import torch
from torchao.float8.float8_training_tensor import LinearMMConfig
from torchao.prototype.float8nocompile.kernels.fp8_dynamic_tensorwise import hp_to_fp8_row_major_t

torch.manual_seed(0)
x = torch.randn(65, 17, device="cuda")
found = hp_to_fp8_row_major_t(x, torch.float8_e4m3fn, LinearMMConfig())
values = found._data.float() / found._scale
print("rows of the result that are right:", int((values - x.t()).abs().lt(0.2).all(1).sum()), "of 17")
print("largest difference:", float((values - x.t()).abs().nan_to_num(1e9).max()))
