"""What every check gets: one launch, its walk, the solver, and the options."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir.ir import Function, Module
from kerncap.sanitizer.walk.access import Walked


@dataclass(frozen=True)
class Analysis:
    launch: Launch
    module: Module
    function: Function
    walked: Walked
    solver: Solver
    options: Options
