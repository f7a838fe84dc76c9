"""Bugs that a later version mended: an error before, and none after."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """``error`` is how it begins: the check, then the place in the version before."""

    library: str
    before: str
    after: str
    call: str
    error: str
    change: str  # by the later version
    refused: bool = False  # the later version raises an error of its own


FAR = "products of a row's number are computed in 64 bits"
EMPTY = "since 0.5.1 an empty sequence in a batch keeps its number when chunks are numbered"
UNWRITTEN = {  # reads of memory that no kernel wrote, forward and backward, in fla-core 0.5.0
    "chunk_gla": ("common/chunk_h.py:122 gk", "common/chunk_h.py:251 gk"),
    "chunk_simple_gla": ("common/chunk_h.py:106 g", "common/chunk_h.py:237 g"),
    "chunk_gated_delta_rule": ("common/chunk_delta_h.py:200 g", "common/chunk_delta_h.py:473 g"),
    "chunk_delta_rule": ("common/chunk_delta_h.py:164 w", "common/chunk_delta_h.py:545 w"),
    "chunk_kda": ("common/chunk_delta_h.py:219 gk", "common/chunk_delta_h.py:494 gk"),
    "chunk_gsa": ("utils/softmax.py:37 x", "utils/softmax.py:66 dp"),
    "chunk_rwkv6": ("common/chunk_h.py:122 gk", "rwkv6/chunk.py:467 ge"),
    "chunk_rwkv7": (
        "dplr/chunk_h_fwd.py:93 kg",
        "dplr/chunk_h_bwd.py:91 qg",
        "dplr/chunk_o_bwd.py:210 dgk_last",
    ),
    "chunk_comba": ("common/chunk_delta_h.py:539 dv",),
    "chunk_gated_delta_product": ("gated_delta_product/chunk_deltaproduct_h.py:133 w",),
}
PAIRS = [
    *(
        Pair("fla", "0.5.0", "0.6.0", f"{name}_packed(LENS=(1, 0, 17, 46))", f"uninit {place}", EMPTY)
        for name, places in UNWRITTEN.items()
        for place in places
    ),
    *(
        Pair(
            "fla", "0.3.1", "0.6.0", "parallel_path_attn_gated(TD=(17, 64))",
            f"oob path_attn/{place} dg_cumsum",
            "since 0.3.2 the addition to dg_cumsum is masked by the length",
        )
        for place in ("parallel_path_bwd_inter_dkv.py:118", "parallel_path_bwd_inter_dqh.py:115")
    ),
    Pair(
        "fla", "0.2.0", "0.2.1", "fused_recurrent_rwkv4(B=2, T=17, D=60)", "race rwkv4/fused_recurrent.py",
        "the gradients of w and u are stored for each batch entry and added up behind the kernel",
    ),
    Pair(
        "liger", "0.5.3", "0.5.5", "cross_entropy_target_out_of_range(N=3, V=100)",
        "oob ops/cross_entropy.py", "targets are compared with the size of the vocabulary", refused=True,
    ),
    Pair("liger", "0.6.0", "0.6.2", "rows_far_apart(NAME=rms_norm)", "overflow ops/rms_norm.py:74", FAR),
    Pair("liger", "0.6.0", "0.6.2", "rows_far_apart(NAME=layer_norm)", "overflow ops/layer_norm.py:55", FAR),
    Pair("liger", "0.3.0", "0.3.1", "gradients_far_apart(NAME=geglu)", "overflow ops/geglu.py:65", FAR),
    Pair("liger", "0.3.0", "0.3.1", "gradients_far_apart(NAME=swiglu)", "overflow ops/swiglu.py:48", FAR),
    *(
        Pair(
            "gems", "4.2.0", "5.0.0", f"reduction_of_all(NAME={name}, X=expanded)", f"oob ops/{name}.py",
            "an input whose rows share memory is copied, and not read as if it were contiguous",
        )
        for name in ("sum", "mean")
    ),
    Pair(
        "gems", "5.0.0", "5.0.2", "slice_backward_to_the_end(N=17, START=0, STEP=1)",
        "oob ops/slice_backward.py", "the slice's length is the gradient's, and not taken from its end",
    ),
    Pair(
        "gems", "5.0.0", "5.0.2", "slice_backward_to_the_end(N=17, START=-3, STEP=2)",
        "oob ops/slice_backward.py", "a negative start counts from the end",
    ),
]  # fmt: skip
