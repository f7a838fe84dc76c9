"""Kernels of kernels.cu that are equal to another, and those that have a mistake."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from tests.integration.equality.cuda.launches import Tensor, launched

Arguments = tuple[Tensor | tuple[str, int | float], ...]


@dataclass(frozen=True)
class Run:
    kernel: str
    arguments: Arguments
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0

    def launch(self, ptx: str | None = None) -> PtxLaunch:
        return launched(self.kernel, self.arguments, self.grid, self.block, self.shared_bytes, ptx)


_AXPY: Arguments = (("a", 2.5), Tensor("x", 1000), Tensor("y", 1000), ("n", 1000))
_ROW: Arguments = (Tensor("x", 1000), Tensor("out", 1000), ("n", 1000))
_HALVES: Arguments = (Tensor("x", 500, "float16"), Tensor("out", 500, "float16"), ("n", 500))
_SOFTMAX: Arguments = (Tensor("x", 600), Tensor("out", 600), ("columns", 200))
_NORM: Arguments = (
    Tensor("x", 1200), Tensor("w", 200), Tensor("b", 200), Tensor("out", 1200), ("columns", 200),
    ("eps", 1e-5),
)  # fmt: skip
_RMS: Arguments = (*_NORM[:2], *_NORM[3:])
_SUM: Arguments = (Tensor("x", 1000), Tensor("total", 1), ("n", 1000))
_TRANSPOSE: Arguments = (Tensor("x", 40 * 50), Tensor("out", 40 * 50), ("rows", 40), ("columns", 50))
_MATMUL: Arguments = (
    Tensor("a", 40 * 33), Tensor("b", 33 * 50), Tensor("c", 40 * 50), ("m", 40), ("n", 50), ("k", 33),
)  # fmt: skip
_FRAGMENTS: Arguments = (
    Tensor("a", 32 * 48, "float16"), Tensor("b", 48 * 24, "float16"), Tensor("c", 32 * 24), ("m", 32),
    ("n", 24), ("k", 48),
)  # fmt: skip
_COUNTS: Arguments = (Tensor("x", 1000, "int32"), Tensor("counts", 4, "int32"), ("n", 1000))

EQUAL: dict[str, tuple[Run, Run]] = {
    "axpy": (
        Run("axpy_one", _AXPY, (8, 1, 1), (128, 1, 1)),
        Run("axpy_strided", _AXPY, (3, 1, 1), (64, 1, 1)),
    ),
    "silu": (Run("silu", _ROW, (8, 1, 1), (128, 1, 1)), Run("silu_by_four", _ROW, (4, 1, 1), (64, 1, 1))),
    "relu": (Run("relu", _ROW, (8, 1, 1), (128, 1, 1)), Run("relu_by_choice", _ROW, (16, 1, 1), (64, 1, 1))),
    "half": (
        Run("half_square", _HALVES, (4, 1, 1), (128, 1, 1)),
        Run("half_square_by_two", _HALVES, (4, 1, 1), (64, 1, 1)),
    ),
    "softmax": (
        Run("softmax_shuffles", _SOFTMAX, (3, 1, 1), (96, 1, 1)),
        Run("softmax_shared", _SOFTMAX, (3, 1, 1), (64, 1, 1), 256),
    ),
    "layer norm": (
        Run("layer_norm_two_passes", _NORM, (6, 1, 1), (64, 1, 1)),
        Run("layer_norm_welford", _NORM, (3, 1, 1), (32, 2, 1)),
    ),
    "rms norm": (
        Run("rms_norm", _RMS, (6, 1, 1), (64, 1, 1)),
        Run("rms_norm_by_two", _RMS, (6, 1, 1), (32, 1, 1), 128),
    ),
    "sum": (
        Run("sum_atomics", _SUM, (4, 1, 1), (64, 1, 1)),
        Run("sum_one_block", _SUM, (1, 1, 1), (256, 1, 1)),
    ),
    "transpose": (
        Run("transpose", _TRANSPOSE, (4, 5, 1), (16, 8, 1)),
        Run("transpose_tiled", _TRANSPOSE, (4, 3, 1), (16, 4, 1)),
    ),
    "matmul": (
        Run("matmul", _MATMUL, (7, 5, 1), (8, 8, 1)),
        Run("matmul_tiled", _MATMUL, (4, 3, 1), (16, 16, 1)),
    ),
    "tensor cores": (
        Run("matmul_half", _FRAGMENTS, (3, 4, 1), (8, 8, 1)),
        Run("matmul_fragments", _FRAGMENTS, (3, 2, 1), (32, 1, 1)),
    ),
    "counts": (
        Run("count_one_by_one", _COUNTS, (8, 1, 1), (128, 1, 1)),
        Run("count_by_votes", _COUNTS, (4, 1, 1), (256, 1, 1)),
    ),
}  # fmt: skip

# With a kernel that is right, and what is said: a witness (None), or the reason why nothing is proved.
MISTAKES: dict[str, tuple[Run, Run, str | None]] = {
    "off by one": (EQUAL["axpy"][0], Run("axpy_off_by_one", _AXPY, (8, 1, 1), (128, 1, 1)), None),
    "a bias": (EQUAL["silu"][0], Run("silu_biased", _ROW, (8, 1, 1), (128, 1, 1)), None),
    "no barrier before a store": (
        EQUAL["softmax"][0],
        Run("softmax_no_barrier", _SOFTMAX, (3, 1, 1), (64, 1, 1), 256),
        "with no barrier between them",
    ),
    "no maximum": (EQUAL["softmax"][0], Run("softmax_without_max", _SOFTMAX, (3, 1, 1), (64, 1, 1)), None),
    "epsilon outside of the root": (
        EQUAL["layer norm"][0],
        Run("layer_norm_epsilon", _NORM, (6, 1, 1), (64, 1, 1)),
        None,
    ),
    "a wrong index": (EQUAL["rms norm"][0], Run("rms_norm_index", _RMS, (6, 1, 1), (64, 1, 1)), None),
    "a tail left out": (EQUAL["sum"][1], Run("sum_tail", _SUM, (4, 1, 1), (64, 1, 1)), None),
    "indices not exchanged": (
        EQUAL["transpose"][0],
        Run("transpose_forgotten", _TRANSPOSE, (4, 3, 1), (16, 4, 1)),
        "",
    ),
    "no barrier after a product": (
        EQUAL["matmul"][0],
        Run("matmul_no_barrier", _MATMUL, (4, 3, 1), (16, 16, 1)),
        "with no barrier between them",
    ),
    "a part not waited for": (
        EQUAL["tensor cores"][0],
        Run("matmul_no_wait", _FRAGMENTS, (3, 2, 1), (32, 1, 1)),
        "to which a copy goes on",
    ),
    "one not counted": (
        EQUAL["counts"][1],
        Run("count_all_but_the_last", _COUNTS, (8, 1, 1), (128, 1, 1)),
        None,
    ),
    "a block too few": (EQUAL["relu"][0], Run("relu", _ROW, (7, 1, 1), (128, 1, 1)), None),
}

_PLACES: Arguments = (Tensor("x", 64), Tensor("out", 64, "int32"), ("n", 64))
_SMALL: Arguments = (Tensor("x", 64), Tensor("out", 64), ("n", 64))


def small(kernel: str, blocks: int = 1) -> Run:
    return Run(kernel, _SMALL, (blocks, 1, 1), (64, 1, 1))


# Each with itself: what is not modelled is never proved.
NOT_MODELLED = {
    "control_of_floats": (small("control_of_floats"), "depends on floats"),
    "place_of_largest": (
        Run("place_of_largest", _PLACES, (1, 1, 1), (64, 1, 1)),
        "whether it runs depends on floats",
    ),
    "place_by_choices": (
        Run("place_by_choices", _PLACES, (1, 1, 1), (64, 1, 1)),
        "hang on too many comparisons",
    ),
    "barrier_in_a_branch": (small("barrier_in_a_branch"), "not all threads come there"),
    "unwritten": (small("unwritten"), "that no thread stored to"),
    "beyond": (small("beyond"), "an access outside of x"),
    "beyond_shared": (small("beyond_shared"), "outside of a variable in shared memory"),
    "two_blocks_store": (small("two_blocks_store", 2), "with no barrier between them"),
    "bits": (small("bits"), "the bits of a float"),
    "punned": (small("punned"), "numbers of other types"),
    "on_the_stack": (small("on_the_stack"), "not modelled"),
}
