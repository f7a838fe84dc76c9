"""A forward and backward pass of a small Llama: RMSNorm, attention, SwiGLU, compiled by Inductor.

`--steps N` of them; `--eps` of RMSNorm is what two runs may differ in. `--forward`: only forward passes, in a
CUDA graph.
"""

from __future__ import annotations

import argparse
import os

import torch
from torch import nn

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS is not deterministic

HIDDEN, HEADS, LAYERS, LENGTH, VOCABULARY = 1024, 16, 4, 512, 8192


class Norm(nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(HIDDEN)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList([Norm(eps), Norm(eps)])
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up, self.gate = (nn.Linear(HIDDEN, 4 * HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


@torch.no_grad()
def forward(model: nn.Module, tokens: torch.Tensor, steps: int) -> None:
    compiled = torch.compile(model, mode="reduce-overhead")
    for step in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        print(float(compiled(tokens.roll(step)).float().pow(2).mean()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--eps", type=float, default=1e-6)
    parser.add_argument("--forward", action="store_true")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_cudnn_sdp(False)  # which is not deterministic
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, HIDDEN), *(Block(asked.eps) for _ in range(LAYERS)), Norm(asked.eps),
        nn.Linear(HIDDEN, VOCABULARY, bias=False),
    ).to(device, torch.bfloat16)  # fmt: skip
    tokens = torch.randint(VOCABULARY, (1, LENGTH + 1), device=device)
    if asked.forward:
        forward(model, tokens, asked.steps)
        return
    step = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(asked.steps):
        logits = step(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(float(loss.detach()))


if __name__ == "__main__":
    main()
