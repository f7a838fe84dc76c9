"""Triton's Autotuner: its own launches set apart, its choice written down."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Optional

from . import encoded_values
from .call import Call, callable_source, evaluate_grid
from .contract import key
from .session import Session

_CONFIG_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


def patch(session: Session, module: Any) -> None:
    autotuner = module.Autotuner
    autotuner.run = wrap_run(session, autotuner.run)
    autotuner._bench = wrap_bench(session, autotuner._bench)


def wrap_run(session: Session, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = session.thread
        outer = thread.autotuners
        thread.autotuners = (*outer, self)
        try:
            return original(self, *args, **kwargs)
        finally:
            thread.autotuners = outer

    return run


def wrap_bench(session: Session, original: Callable[..., Any]) -> Callable[..., Any]:
    """What runs inside is the autotuner's own measuring."""

    @functools.wraps(original)
    def bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = session.thread
        _freeze(session, self)
        thread.tuning += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            thread.tuning -= 1

    return bench


def _freeze(session: Session, tuner: Any) -> None:
    """The launches to come must be seen one by one: they don't count as ordinals."""
    inner = tuner
    while hasattr(inner, "fn"):
        counters = session.by_object.get(id(inner))
        if counters is not None and not counters.done:
            with session.lock:
                counters.freeze()
        inner = inner.fn


def describe(session: Session, fn: Any, call: Call) -> Optional[Dict[str, Any]]:
    """Autotune of the running Autotuner that launched ``fn``; None for a launch without one."""
    for tuner in reversed(session.thread.autotuners):
        inner = tuner
        while inner is not fn and hasattr(inner, "fn"):
            inner = inner.fn
        if inner is fn:
            return _describe(tuner, call)
    return None


def _describe(tuner: Any, call: Call) -> Dict[str, Any]:
    configs = list(tuner.configs)
    return {
        key.configs: [_config(config, call) for config in configs],
        key.chosen: _chosen(tuner, configs, call),
        key.key: [str(name) for name in getattr(tuner, "keys", None) or ()],
        key.reset_to_zero: [str(name) for name in getattr(tuner, "reset_to_zero", None) or ()],
        key.restore_value: [str(name) for name in getattr(tuner, "restore_value", None) or ()],
    }


def _config(config: Any, call: Call) -> Dict[str, Any]:
    described: Dict[str, Any] = {
        key.kwargs: {
            str(name): encoded_values.encode(value, str(name)) for name, value in config.kwargs.items()
        },
        key.options: {
            name: encoded_values.encode(getattr(config, name))
            for name in _CONFIG_OPTIONS
            if getattr(config, name, None) is not None
        },
    }
    try:
        described[key.grid] = list(evaluate_grid(call.grid, {**call.arguments, **config.kwargs}))
    except Exception:
        described[key.grid] = None  # this configuration's grid is not known: tuning leaves it out
    hook = callable_source(getattr(config, "pre_hook", None))
    if hook is not None:
        described[key.pre_hook] = hook
    return described


def _chosen(tuner: Any, configs: Any, call: Call) -> Optional[int]:
    best = getattr(tuner, "best_config", None)
    for number, config in enumerate(configs):
        if config is best:
            return number
    launched = {**call.arguments, **call.options}
    for number, config in enumerate(configs):  # a configuration that came from a disk cache
        if all(
            name in launched and _same(launched[name], value) for name, value in config.all_kwargs().items()
        ):
            return number
    return None


def _same(one: Any, other: Any) -> bool:
    return encoded_values.encode(one) == encoded_values.encode(other)
