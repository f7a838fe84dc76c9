"""Triton's Autotuner if nothing can be measured: every configuration is looked at, one is carried out."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from . import hooks


def run(watcher: hooks.Watcher, tuner: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """In place of `Autotuner.run`: configurations as it would prune them; the first that compiles is chosen.

    Hooks of the autotuner and of configurations run as they would around a measurement, since they may
    set what a launch needs (the block shape of a descriptor); the chosen one comes last.
    """
    tuner.nargs = dict(zip(tuner.arg_names, args))
    try:
        configs = _configurations(tuner, kwargs)
        chosen, key = _known(tuner, configs, args, kwargs)
        others = [config for config in configs if config is not chosen]
        failed: Dict[int, BaseException] = {}
        if watcher.every_configuration:
            for config in others if chosen is not None else configs[1:]:
                try:
                    _look_at(tuner, config, args, kwargs)
                except hooks.CannotCarryOut:
                    raise
                except Exception as error:  # this one is out of the running, as one that can't be measured is
                    failed[id(config)] = error
        for config in [chosen] if chosen is not None else configs:
            try:
                return _carry_out(watcher, tuner, config, key, chosen is None, args, kwargs)
            except hooks.CannotCarryOut:
                raise
            except Exception as error:
                if not _is_compilation(error) or config is (chosen or configs[-1]):
                    raise
        return None
    finally:
        tuner.nargs = None


def _configurations(tuner: Any, kwargs: Dict[str, Any]) -> List[Any]:
    if len(tuner.configs) <= 1:
        return list(tuner.configs)
    return list(tuner.prune_configs(kwargs))


def _known(tuner: Any, configs: List[Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Any, Any]:
    """The configuration that was chosen for this key before (None: none yet), and the key."""
    if len(tuner.configs) <= 1:
        return configs[0], None
    given = {k: v for k, v in {**tuner.nargs, **kwargs}.items() if k in tuner.arg_names}
    key = [given[name] for name in tuner.keys if name in given]
    key += [str(value.dtype) for value in given.values() if hasattr(value, "dtype")]
    return _chosen(tuner).get(tuple(key)), tuple(key)


def _chosen(tuner: Any) -> Dict[Any, Any]:
    """By key. Not the tuner's own cache: what is chosen here was never measured."""
    found: Dict[Any, Any] = tuner.__dict__.setdefault("_kerncap_chosen", {})
    return found


def _look_at(tuner: Any, config: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    _pre_hook(tuner, config, kwargs)
    hooks.check_configuration(
        hooks._configuration_label(tuner, config),
        lambda: tuner.fn.run(*args, **{**kwargs, **config.all_kwargs()}),
    )


def _carry_out(
    watcher: hooks.Watcher,
    tuner: Any,
    config: Any,
    key: Any,
    first: bool,
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
) -> Any:
    if first and key is not None:
        tuner.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()}, reset_only=True)
    _pre_hook(tuner, config, kwargs)
    label = hooks._configuration_label(tuner, config) if len(tuner.configs) > 1 else hooks._state.label
    conflicts = kwargs.keys() & config.kwargs.keys()
    if conflicts:
        raise ValueError(
            f"Conflicting meta-parameters: {', '.join(conflicts)}. "
            "Make sure that you don't re-define auto-tuned symbols."
        )
    result = hooks.with_label(label, lambda: tuner.fn.run(*args, **kwargs, **config.all_kwargs()))
    if not watcher.collects_only:
        tuner.best_config = config
        if key is not None:
            _chosen(tuner)[key] = config
    return result


def _pre_hook(tuner: Any, config: Any, kwargs: Dict[str, Any]) -> None:
    if getattr(config, "pre_hook", None) is not None:
        config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})


def _is_compilation(error: BaseException) -> bool:
    return any(kind.__module__.startswith("triton.") for kind in type(error).__mro__)
