"""Which builds `blame` makes of a CUDA kernel's source."""

from __future__ import annotations

import pytest

from kerncap.api.blame.cuda_builds import builds

STRICT = "IEEE arithmetic, ptxas -O0"
LEVELS = ["ptxas -O1", "ptxas -O2", "ptxas -O3"]


@pytest.mark.parametrize(
    ("recorded", "names"),
    [
        ((), [STRICT, "--fmad=true", *LEVELS]),
        (("-fmad=false", "-ftz=true"), [STRICT, "--ftz=true", *LEVELS]),
        (("--ftz=false", "-Xptxas=-O1"), [STRICT, "--fmad=true", "ptxas -O1"]),
        (("-Xptxas=-O0",), [STRICT, "--fmad=true"]),
        (
            ("-use_fast_math",),
            [STRICT, "--fmad=true", "--ftz=true", "--prec-div=false", "--prec-sqrt=false", "--use_fast_math",
             *LEVELS],
        ),
        (
            ("--use_fast_math", "--fmad=false", "--ftz=false"),
            [STRICT, "--ftz=true", "--prec-div=false", "--prec-sqrt=false", "--ftz=false", "--use_fast_math",
             *LEVELS],
        ),
    ],
)  # fmt: skip
def test_one_change_each(recorded: tuple[str, ...], names: list[str]) -> None:
    assert [build.name for build in builds(recorded)] == names


def test_other_options_are_in_every_build() -> None:
    for build in builds(("-DN=4", "-use_fast_math", "--std=c++17", "--ptxas-options=-v")):
        assert build.options[:3] == ("-DN=4", "--std=c++17", "--ptxas-options=-v")
        assert len({option.split("=")[0] for option in build.options[3:]}) == len(build.options[3:])
