"""The launches of `kernels`: what is equal, what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kerncap.sanitizer.equality.kernel_runs import kernel_of
from kerncap.sanitizer.equality.proof import Proof, prove
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.sources.triton_call import launches_of
from tests.integration.equality.kernels import (
    activations,
    attention,
    dequantise,
    gather,
    hidden,
    losses,
    matmul,
    maxima,
    norms,
    rotary,
    softmax,
    sums,
    whole,
)

Grid = tuple[int, ...]


@dataclass(frozen=True)
class Run:
    kernel: Any
    grid: Grid
    constants: dict[str, int]


def _empty(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


def launched(arguments: tuple[Any, ...], one: Run) -> Launch:
    [found] = launches_of(
        one.kernel, one.grid, arguments, dict(one.constants), target="cuda:90", all_configs=False
    )
    return found


def proved(arguments: tuple[Any, ...], first: Run, second: Run) -> Proof:
    """Whether two launches on the same tensors are equal."""
    return prove(*(kernel_of(launched(arguments, one)) for one in (first, second)))


ROWS, N = 6, 100
_ROW = {"BLOCK": 128}
_PART = {"BLOCK": 32}
_TILE = {"M": 16, "N": 32, "K": 16}
_HEAD = {"D": 16, "Q": 16, "KEYS": 64}


def _rows(*extra: Any) -> tuple[Any, ...]:
    return (torch.zeros(ROWS, N), *extra, N)


def _matrices() -> tuple[Any, ...]:
    return (_empty(40, 50), _empty(50, 70), _empty(40, 70), 40, 70, 50)


def _heads() -> tuple[Any, ...]:
    return (_empty(50, 16), _empty(50, 16), _empty(50, 16), _empty(50, 16), _empty(50), 50, 0.25)


def _norm() -> tuple[Any, ...]:
    return _rows(_empty(N), _empty(N), _empty(ROWS, N)) + (1e-5,)


def _rms() -> tuple[Any, ...]:
    return (torch.zeros(ROWS, N, dtype=torch.bfloat16), _empty(N), _empty(ROWS, N), N, 1e-6)


def _loss() -> tuple[Any, ...]:
    return _rows(torch.tensor([3, 99, 0, 50, 7, 7]), _empty(ROWS))


def _flat(count: int) -> tuple[Any, ...]:
    return (*(_empty(1000) for _ in range(count)), 1000)


def _rotated() -> tuple[Any, ...]:
    return (_empty(ROWS, N), _empty(N // 2), _empty(N // 2), _empty(ROWS, N), N)


def _quantised() -> tuple[Any, ...]:
    weights = (torch.arange(ROWS * N) % 251 - 125).to(torch.int8).reshape(ROWS, N)
    return weights, _empty(ROWS), _empty(N), _empty(ROWS), N


def _indexed() -> tuple[Any, ...]:
    return (_empty(ROWS, N), torch.tensor([5, 2, 2, 0, 4, 1]), _empty(ROWS, N), N)


def _maxima() -> tuple[Any, ...]:
    return _rows(_empty(ROWS))


def _places() -> tuple[Any, ...]:
    return _rows(torch.zeros(ROWS, dtype=torch.int64))


def _row(kernel: Any, constants: dict[str, int] = _ROW) -> Run:
    return Run(kernel, (ROWS,), constants)


def _each(kernel: Any, block: int = 256) -> Run:
    return Run(kernel, (-(-1000 // block),), {"BLOCK": block})


def _product(kernel: Any, grid: Grid = (3, 3), **constants: int) -> Run:
    return Run(kernel, grid, {**_TILE, **constants})


def _head(kernel: Any, **constants: int) -> Run:
    sizes = {**_HEAD, **constants}
    return Run(kernel, (-(-50 // sizes["Q"]),), sizes)


_SUMS = (_empty(12, 90), _empty(90), 12, 90)
Made = Callable[[], tuple[Any, ...]]

EQUAL: dict[str, tuple[Made, Run, Run]] = {
    "softmax, online": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.softmax), _row(softmax.softmax_online, _PART),
    ),
    "softmax, guarded": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.softmax), _row(softmax.softmax_guarded, _PART),
    ),
    "whole numbers": (lambda: _flat(2), _each(whole.whole), _each(whole.whole_of_a_sum)),
    "cube": (lambda: _flat(2), _each(activations.cube), _each(activations.cube_by_power)),
    "log-softmax": (lambda: _rows(_empty(ROWS, N)), _row(softmax.log_softmax),
                    _row(softmax.log_softmax_in_powers_of_two, _PART)),
    "layer norm, Welford": (_norm, _row(norms.layer_norm), _row(norms.layer_norm_welford, _PART)),
    "RMS norm in passes": (_rms, _row(norms.rms_norm), _row(norms.rms_norm_in_passes, _PART)),
    "cross entropy, online": (_loss, _row(losses.cross_entropy), _row(losses.cross_entropy_online, _PART)),
    "divergence": (lambda: _flat(3), _each(losses.divergence), _each(losses.divergence_by_entropies, 64)),
    "swiglu": (lambda: _flat(3), _each(activations.swiglu), _each(activations.swiglu_by_hand, 64)),
    "gelu": (lambda: _flat(2), _each(activations.gelu), _each(activations.gelu_by_division)),
    "relu": (lambda: _flat(2), _each(activations.relu), _each(activations.relu_by_choice)),
    "tanh": (lambda: _flat(2), _each(activations.tanh_by_exp), _each(activations.tanh_by_sigmoid)),
    "rotary embedding": (_rotated, _row(rotary.rope, {"HALF": 64}), _row(rotary.rope_rotated, {"HALF": 64})),
    "matmul, other tiles": (
        _matrices, _product(matmul.matmul), _product(matmul.matmul, (2, 2), M=32, N=64, K=32),
    ),
    "matmul by rows": (_matrices, _product(matmul.matmul), _product(matmul.matmul_by_rows)),
    "matmul, split": (_matrices, _product(matmul.matmul_added), _product(matmul.matmul_split, (3, 3, 4))),
    "attention": (_heads, _head(attention.attention), _head(attention.attention_flash, KEYS=16)),
    "attention, other tiles": (
        _heads, _head(attention.attention_flash, KEYS=32), _head(attention.attention_flash, Q=32),
    ),
    "running sum": (
        lambda: _rows(_empty(ROWS, N)), _row(sums.running_sum), _row(sums.running_sum_in_steps),
    ),
    "sums of columns": (
        lambda: _SUMS, Run(sums.column_sums, (3,), _PART), Run(sums.column_sums_by_atomics, (1,), _ROW),
    ),
    "quantised": (_quantised, _row(dequantise.dequantised), _row(dequantise.dequantised_at_the_end, _PART)),
    "gathered rows": (_indexed, _row(gather.gathered), _row(gather.gathered_by_masks)),
    "RMS norm with its epsilon": (_rms, _row(norms.rms_norm), _row(norms.rms_norm_with_epsilon)),
    "RMS norm in place": (
        lambda: (torch.zeros(ROWS, N), N, 1e-6), _row(norms.rms_norm_in_place),
        _row(norms.rms_norm_in_place_by_division),
    ),
    "largest by choices": (_maxima, _row(maxima.largest), _row(maxima.largest_by_choices)),
    "least of two": (lambda: _flat(2), _each(maxima.least_of_two), _each(maxima.least_but_nan)),
    "largest": (_maxima, _row(maxima.largest), _row(maxima.largest_in_steps)),
    "largest or zero": (_maxima, _row(maxima.largest_or_zero), _row(maxima.largest_and_then_zero)),
    "seventh of the largest": (
        _maxima, _row(maxima.seventh_of_the_largest_or_zero),
        _row(maxima.seventh_of_the_largest_in_blocks, _PART),
    ),
    "place in blocks": (
        _places, _row(maxima.largest_place), _row(maxima.largest_place_in_blocks, _PART),
    ),
    "place by lanes": (
        _places, _row(maxima.largest_place_in_blocks, _PART), _row(maxima.largest_place_by_lanes, _PART),
    ),
    "sorted rows": (
        lambda: _rows(_empty(ROWS, N)), _row(maxima.sorted_rows),
        Run(maxima.sorted_rows_of_two, (ROWS // 2,), _ROW),
    ),
    "top four": (
        lambda: _rows(_empty(ROWS, N)), _row(maxima.top_four),
        Run(maxima.top_four_of_two_rows, (ROWS // 2,), _ROW),
    ),
}  # fmt: skip

UNEQUAL: dict[str, tuple[Made, Run, Run]] = {
    "softmax without its maximum": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.softmax), _row(softmax.softmax_without_maximum),
    ),
    "whole numbers by floor": (lambda: _flat(2), _each(whole.whole), _each(whole.whole_by_floor)),
    "cube and square": (lambda: _flat(2), _each(activations.cube), _each(activations.square_by_power)),
    "softmax with a bias": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.softmax), _row(softmax.softmax_with_bias),
    ),
    "softmax padded with zeros": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.softmax_online, _PART),
        _row(softmax.softmax_padded_with_zeros),
    ),
    "softmax with a maximum over zeros": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.softmax), _row(softmax.softmax_with_maximum_over_zeros),
    ),
    "layer norm, epsilon outside": (_norm, _row(norms.layer_norm), _row(norms.layer_norm_epsilon_outside)),
    "layer norm, squares unmasked": (_norm, _row(norms.layer_norm), _row(norms.layer_norm_unmasked_squares)),
    "layer norm by n - 1": (_norm, _row(norms.layer_norm), _row(norms.layer_norm_one_less)),
    "RMS norm, weight plus one": (_rms, _row(norms.rms_norm), _row(norms.rms_norm_weight_plus_one)),
    "RMS norm without its last": (_rms, _row(norms.rms_norm), _row(norms.rms_norm_without_last)),
    "cross entropy of the next": (_loss, _row(losses.cross_entropy), _row(losses.cross_entropy_next_target)),
    "log-softmax of quotients": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.log_softmax), _row(softmax.log_softmax_of_quotients),
    ),
    "divergence of logarithms": (
        lambda: _flat(3), _each(losses.divergence), _each(losses.divergence_of_logarithms),
    ),
    "swiglu that overflows": (
        lambda: _flat(3), _each(activations.swiglu), _each(activations.swiglu_that_overflows),
    ),
    "swiglu of the other": (
        lambda: _flat(3), _each(activations.swiglu), _each(activations.swiglu_of_the_other),
    ),
    "gelu of a shorter constant": (
        lambda: _flat(2), _each(activations.gelu), _each(activations.gelu_of_a_constant),
    ),
    "relu that leaks": (lambda: _flat(2), _each(activations.relu), _each(activations.relu_leaky)),
    "rotary embedding, other sign": (
        _rotated, _row(rotary.rope, {"HALF": 64}), _row(rotary.rope_other_sign, {"HALF": 64}),
    ),
    "matmul without its tail": (_matrices, _product(matmul.matmul), _product(matmul.matmul_without_tail)),
    "matmul, transposed": (
        lambda: (_empty(40, 64), _empty(64, 64), _empty(40, 64), 40, 64, 64),
        _product(matmul.matmul, (3, 2)), _product(matmul.matmul_transposed, (3, 2)),
    ),
    "attention, not rescaled": (
        _heads, _head(attention.attention), _head(attention.attention_not_rescaled, KEYS=16),
    ),
    "attention to later keys": (_heads, _head(attention.attention), _head(attention.attention_later_keys)),
    "running sum without itself": (
        lambda: _rows(_empty(ROWS, N)), _row(sums.running_sum), _row(sums.running_sum_without_itself),
    ),
    "sums of columns but the first": (
        lambda: _SUMS, Run(sums.column_sums, (3,), _PART), Run(sums.column_sums_without_first, (3,), _PART),
    ),
    "quantised, off by a zero": (
        _quantised, _row(dequantise.dequantised), _row(dequantise.dequantised_off_by_a_zero),
    ),
    "gathered from the first": (_indexed, _row(gather.gathered), _row(gather.gathered_from_the_first)),
    "place of the largest": (
        lambda: _rows(torch.zeros(ROWS, dtype=torch.int32)), _row(maxima.largest_place),
        _row(maxima.largest_place_of_all_but_one),
    ),
    "place of the last of equals": (
        _places, _row(maxima.largest_place), _row(maxima.largest_place_of_later_blocks, _PART),
    ),
    "largest but zero": (_maxima, _row(maxima.largest), _row(maxima.largest_or_zero)),
    "place in its block": (
        _places, _row(maxima.largest_place), _row(maxima.largest_place_in_its_block, _PART),
    ),
    "place of the least": (_places, _row(maxima.largest_place), _row(maxima.least_place)),
    "sorted down": (
        lambda: _rows(_empty(ROWS, N)), _row(maxima.sorted_rows), _row(maxima.sorted_rows_down),
    ),
    "top four of sizes": (
        lambda: _rows(_empty(ROWS, N)), _row(maxima.top_four), _row(maxima.top_four_of_sizes),
    ),
    "RMS norm, another epsilon": (_rms, _row(norms.rms_norm), _row(norms.rms_norm_with_another_epsilon)),
    "largest by the other choice": (
        _maxima, _row(maxima.largest_by_choices), _row(maxima.largest_by_the_other_choice),
    ),
    "largest by half": (_maxima, _row(maxima.largest_by_choices), _row(maxima.largest_by_half)),
    "largest of all but the last": (_maxima, _row(maxima.largest), _row(maxima.largest_of_all_but_the_last)),
}  # fmt: skip

_DOUBLED = (lambda: _flat(2), _each(hidden.twice))
_ONE = (lambda: (_empty(1), _empty(1), 1), Run(hidden.twice, (1,), {"BLOCK": 1}))
_APART = (_ONE[0], Run(hidden.distance, (1,), {"BLOCK": 1}))


def _of_one(kernel: Any) -> Run:
    return Run(kernel, (1,), {"BLOCK": 1})


def _flag() -> tuple[Any, ...]:
    return _empty(32), torch.tensor([0, 1], dtype=torch.int32), 32


def _flags(kernel: Any, programs: int = 1) -> tuple[Made, Run, Run]:
    first, second = (Run(one, (programs,), {"BLOCK": 32}) for one in (hidden.flagged, kernel))
    return _flag, first, second


# Unequal ones that show only for a few inputs, or in a part of them that no filling reaches.
HIDDEN: dict[str, tuple[Made, Run, Run]] = {
    "one value": (*_DOUBLED, _each(hidden.but_one_value)),
    "softmax of what is not too low": (
        lambda: _rows(_empty(ROWS, N)), _row(softmax.softmax), _row(softmax.softmax_guarded_by_a_number),
    ),
    "whole in 8 bits": (lambda: _flat(2), _each(whole.whole), _each(whole.whole_in_eight_bits)),
    "whole but one": (lambda: _flat(2), _each(whole.whole), _each(whole.whole_but_one)),
    "whole but one by a branch": (
        lambda: _flat(2), _each(whole.whole), _each(whole.whole_but_one_by_a_branch),
    ),
    "powers of two exponents": (
        lambda: _flat(2), _each(activations.cube), _each(activations.cube_by_two_powers),
    ),
    "large values": (*_ONE, _of_one(hidden.but_large_values)),
    "a band": (*_ONE, _of_one(hidden.but_a_band)),
    "by a sum": (*_DOUBLED, _each(hidden.but_all_large_by_a_sum)),
    "by and": (*_DOUBLED, _each(hidden.but_all_large_by_and)),
    "by branches": (*_DOUBLED, _each(hidden.but_all_large_by_branches)),
    "by a count": (*_DOUBLED, _each(hidden.but_all_large_by_a_count)),
    "by a maximum": (*_DOUBLED, _each(hidden.but_all_large_by_a_maximum)),
    "by the place of a maximum": (*_DOUBLED, _each(hidden.but_all_large_by_a_place)),
    "by others of loads": (
        lambda: (_empty(32), _empty(1), 32), _of_one(hidden.scaled), _of_one(hidden.scaled_by_others),
    ),
    "by others of integers": _flags(hidden.flagged_by_others),
    "by stores of programs": _flags(hidden.flagged_by_programs, 32),
    "by branches of programs": _flags(hidden.flagged_by_branches, 32),
    "by stores of lanes": _flags(hidden.flagged_by_lanes),
    "by stores in turn": _flags(hidden.flagged_in_turn),
    "by a place": (_flag, Run(hidden.no_place, (1,), {"BLOCK": 32}),
                   Run(hidden.place_times_flags, (1,), {"BLOCK": 32})),
    "by atomics": (
        lambda: (_empty(32), torch.zeros(1, dtype=torch.int32), 32), _of_one(hidden.counted),
        _of_one(hidden.counted_by_atomics),
    ),
    "a size": (*_APART, _of_one(hidden.distance_by_size)),
    "a root": (*_APART, _of_one(hidden.distance_by_root)),
    "a logarithm": (*_APART, _of_one(hidden.distance_by_log)),
    "one place": (_places, _row(maxima.largest_place), _row(maxima.largest_place_but_one)),
    "equals above a number": (
        _places, _row(maxima.largest_place), _row(maxima.largest_place_of_equals_above, _PART),
    ),
    "a place that is read again": (
        _places, _row(maxima.largest_place), _row(maxima.largest_place_stored_twice),
    ),
    "sorted below a number": (
        lambda: _rows(_empty(ROWS, N)), _row(maxima.sorted_rows), _row(maxima.sorted_rows_clipped),
    ),
}  # fmt: skip
