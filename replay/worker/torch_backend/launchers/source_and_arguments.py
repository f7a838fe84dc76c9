"""The kernel's source module: loading it, finding the entry, binding the launch's arguments to it."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import itertools
import linecache
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ...common.failures import KernelError, Refused
from ...common.fresh_source import Fresh
from ...job import Job
from ...triton_launch.launch_values import Values
from .. import replaced_functions
from ..isolation import MODULE_PREFIX
from . import places

_serial = itertools.count()
_beside: set[str] = set()  # modules that a source has imported from its own folder


def load(path: Path) -> ModuleType:
    """The module in ``path`` under a name of its own. It may import what lies beside it, each time again.

    Raises KernelError with the traceback when it does not import.
    """
    name = f"{MODULE_PREFIX}{next(_serial)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=Fresh(name, str(path)))
    if spec is None or spec.loader is None:
        raise Refused(f"{path} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Triton reads sources through inspect, which looks here
    try:
        with _imports_beside(path.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        # From the module's own frame on; a syntax error has none and names its line itself.
        frame = error.__traceback__
        while frame is not None and frame.tb_frame.f_code.co_filename != str(path):
            frame = frame.tb_next
        detail = "".join(traceback.format_exception(type(error), error, frame))
        sys.modules.pop(name, None)
        raise KernelError(
            f"{path.name} can't be imported: {type(error).__name__}: {error}", detail,
            places.of_error(error, path),
        ) from error  # fmt: skip
    return module


@contextlib.contextmanager
def _imports_beside(folder: Path) -> Iterator[None]:
    """The folder as the last place that modules are looked for in: it hides nothing that is installed.

    What came from there before may have been edited since. No bytecode is left in a user's folder.
    """
    for name in _beside:
        sys.modules.pop(name, None)
    _beside.clear()
    known, writes = set(sys.modules), sys.dont_write_bytecode
    importlib.invalidate_caches()
    sys.path.append(str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None)
            if file and folder in Path(file).parents and not name.startswith(MODULE_PREFIX):
                _beside.add(name)


class SourceKernel:
    """The entry of a module, bound to the arguments of the launch."""

    def __init__(self, path: Path, job: Job, values: Values) -> None:
        self.module = load(path)
        self.job = job
        entry = str(job["entry"])
        function = getattr(self.module, entry, None)
        if function is None:
            names = [name for name, item in vars(self.module).items() if hasattr(item, "run")]
            raise Refused(f"{path.name} has no kernel {entry}; it has {', '.join(names) or 'none'}")
        # The captured configuration is what is replayed: decorators that choose another are passed by.
        while not _is_jit(function) and hasattr(function, "fn"):
            function = function.fn
        if not _is_jit(function):
            raise Refused(
                f"{entry} in {path.name} is not a @triton.jit function but a {type(function).__name__}"
            )
        own = job["source"] is not None and path == Path(job["folder"]) / job["source"]
        if not own and (problem := replaced_functions.foreign_launch(function)):
            raise Refused(f"{entry} in {path.name} can't be judged: {problem}")
        self.function = function
        self._check_signature(path)
        self.arguments = {
            a["name"]: values.build(a["value"], a["name"], self.module) for a in job["arguments"]
        }
        self.options = {
            name: values.build(value, name, self.module)
            for name, value in job["launch"].get("options", {}).items()
            if name not in self.arguments
        }

    def passed(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments as a launch takes them: by position as far as that goes.

        A parameter may be called as one of Triton's own functions is (``self``, ``grid``).
        """
        positional: list[Any] = []
        left = dict(arguments)
        for name, parameter in inspect.signature(self.function.fn).parameters.items():
            if name not in left or parameter.kind is parameter.KEYWORD_ONLY:
                break
            value = left.pop(name)
            positional += value if parameter.kind is parameter.VAR_POSITIONAL else [value]
        return positional, left

    def forget(self) -> None:
        """Drop the module, and with it its text, which Python keeps by path."""
        sys.modules.pop(self.module.__name__, None)
        linecache.checkcache(str(self.module.__file__))

    def _check_signature(self, path: Path) -> None:
        parameters = inspect.signature(self.function.fn).parameters
        given = [a["name"] for a in self.job["arguments"]]
        unknown = [name for name in given if name not in parameters]
        unbound = [
            n for n, p in parameters.items() if n not in given and p.default is inspect.Parameter.empty
        ]
        if unknown or unbound:
            problems = []
            if unknown:
                problems.append(f"the launch passes {', '.join(unknown)}, which it does not take")
            if unbound:
                problems.append(f"it takes {', '.join(unbound)}, which the launch does not pass")
            raise Refused(
                f"{self.job['entry']} in {path.name} has another signature than the captured kernel: "
                f"{'; '.join(problems)}. Expected ({', '.join(given)}), found ({', '.join(parameters)})"
            )


def _is_jit(function: Any) -> bool:
    return type(function).__name__ in ("JITFunction", "InterpretedFunction", "GluonJITFunction")
