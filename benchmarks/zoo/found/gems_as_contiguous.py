"""flag_gems 5.0.2: reductions of a tensor with gaps or overlaps read its memory as if it had neither."""

import torch
from flag_gems import ops

torch.manual_seed(0)
NAMES = ("min", "amax", "argmax", "argmin", "prod", "aminmax", "all", "any", "var_mean")


def same(found, expected):
    if isinstance(expected, (tuple, list)):
        return all(map(same, found, expected))
    return torch.allclose(found.double().flatten(), expected.double().flatten(), rtol=1e-4)


for name in NAMES:
    # Every other column, with zeros (for "any", ones) between them; and one row 300 times.
    wide = torch.zeros(17, 16, device="cuda") + (name == "any")
    wide[:, ::2] = 0.0 if name == "any" else torch.rand(17, 8, device="cuda") + 0.5
    row = torch.rand(1, 65, device="cuda") + 0.5
    right = [
        same(getattr(ops, name)(x), getattr(torch, name)(x)) for x in (wide[:, ::2], row.expand(300, 65))
    ]
    print(f"{name}: as torch says of the columns, of the rows:", *right)
v = torch.rand(65, 60, device="cuda")[:, 0]
print("dot of a column:", same(ops.dot(v, v), torch.dot(v, v)))
rows = torch.rand(1, 65, device="cuda").expand(300, 65)
print("topk of one row 300 times:", same(ops.topk(rows, 5)[0], torch.topk(rows, 5)[0]))
