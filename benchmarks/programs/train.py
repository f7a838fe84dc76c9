"""A training loop of a small transformer: bf16 autocast over fp32 weights, AdamW; the target of list.py.

train.py --seconds 12              as many steps as take that long; says how many
train.py --steps 900               so many
train.py --steps 900 --profile F   torch's profiler over the last 60 of them; kernels and their times to F
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch import nn
from torch.cuda import nvtx
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, VOCABULARY, BATCH, LENGTH = 768, 12, 6, 8192, 16, 512
PROFILED = 60


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2)
            for part in self.qkv(self.before(x)).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embedding(tokens)))


class Trainer:
    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = Model().cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), device="cuda")

    def step(self) -> torch.Tensor:
        nvtx.range_push("forward")
        with torch.autocast("cuda", torch.bfloat16):
            logits = self.model(self.tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), self.tokens[:, 1:].flatten())
        nvtx.range_pop()
        loss.backward()
        nvtx.range_push("optimizer")
        self.optimizer.step()
        self.optimizer.zero_grad()
        nvtx.range_pop()
        return loss


def profile(trainer: Trainer, path: str) -> None:
    """Kernels as CUPTI told torch of them, summed by name."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(PROFILED):
            trainer.step()
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = {}
    for event in profiler.profiler.kineto_results.events():
        if str(event.device_type()) != "DeviceType.CUDA" or event.name().startswith(("Memcpy", "Memset")):
            continue
        entry = kernels.setdefault(event.name(), [0, 0.0])
        entry[0] += 1
        entry[1] += event.duration_ns()
    with open(path, "w") as file:
        json.dump({"steps": PROFILED, "kernels": kernels}, file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--profile")
    options = parser.parse_args()
    trainer = Trainer()
    started, steps = time.perf_counter(), 0
    wanted = options.steps - (PROFILED if options.profile else 0)
    loss = trainer.step()
    while steps < wanted if options.steps else time.perf_counter() - started < options.seconds:
        loss = trainer.step()
        steps += 1
        if steps % 20 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    loop_s = time.perf_counter() - started
    if options.profile:
        profile(trainer, options.profile)
    print(json.dumps({"steps": steps, "loop_s": loop_s, "loss": loss.item()}))


main()
