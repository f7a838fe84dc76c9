"""A torch.compile'd MLP, forward and backward: the kernels are Inductor's. Needs a GPU."""

import sys

import torch


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)), approximate="tanh"))


def main() -> None:
    if not torch.cuda.is_available():
        print("torch_compile_block: torch.compile makes Triton kernels only for GPUs, and none was found")
        sys.exit(0)
    torch.manual_seed(0)
    block = Block(128).cuda()
    compiled = torch.compile(block)
    x = torch.randn(64, 128, device="cuda", requires_grad=True)
    parameters = (x, *block.parameters())
    y = compiled(x)
    ours = torch.autograd.grad(y.square().mean(), parameters)
    expected = block(x)
    theirs = torch.autograd.grad(expected.square().mean(), parameters)
    torch.testing.assert_close(y, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
    print("torch_compile_block: forward and backward agree with eager torch (cuda)")


if __name__ == "__main__":
    main()
