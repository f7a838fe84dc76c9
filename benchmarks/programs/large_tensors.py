"""As `large touch`, from torch's allocator: GIB in four tensors, an operation on a little of each."""

import sys

import torch

each = (int(sys.argv[1]) << 30) // 32  # int64 elements of one of four
parts = [torch.randint(1, 2**62, (each,), device="cuda", dtype=torch.int64) for _ in range(4)]
for _ in range(3):
    torch._foreach_add_([part[:64] for part in parts], 1)
torch.cuda.synchronize()
print("touched")
