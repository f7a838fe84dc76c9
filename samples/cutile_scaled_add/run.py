"""A kernel in cuTile: its Python function is the source, and cuTile compiles an edit. Needs a GPU."""

import sys

try:
    import cuda.tile as ct
    import torch
except ImportError as error:
    print(f"cutile_scaled_add: needs {error.name}, which is not installed")
    sys.exit(0)

GAIN = 1.25
TILE = 256


def amplified(tile):
    return tile * GAIN


@ct.kernel
def scaled_add(alpha, x, y, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(tile,))
    b = ct.load(y, index=(i,), shape=(tile,))
    ct.store(out, index=(i,), tile=amplified(a) * alpha + b)


def main() -> None:
    if not torch.cuda.is_available():
        print("cutile_scaled_add: needs a CUDA device, and none was found")
        return
    n = 10_000
    x = torch.arange(n, dtype=torch.float32, device="cuda") / n
    y = torch.ones_like(x)
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), ((n + TILE - 1) // TILE,), scaled_add, (0.5, x, y, out, TILE))
    torch.testing.assert_close(out, x * GAIN * 0.5 + y)
    print(f"cutile_scaled_add: {n} values agree with torch")


if __name__ == "__main__":
    main()
