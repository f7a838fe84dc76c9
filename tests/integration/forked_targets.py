"""Programs under capture, with no import of torch for each: a command forks them, and torch is there.

Only what `python FILE` would start, and only if FILE names torch: a fork of the command's own process, with
the command's modules taken away. What the program sees is a Python that has just started: its own arguments,
environment, `sys.path` and streams, `sitecustomize` run, no torch in `sys.modules`. Its `import torch` finds
what was loaded before, through `sys.meta_path`, so that who watches imports sees it. The native shims are
opened, not preloaded: nothing here has a driver that they would hook. How a program is started, and what
becomes of its streams and signals, is shown with real ones by `tests/integration/triton`
(`test_capture_passthrough`, `test_capture_crash`, `test_arm`).
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import ctypes
import gc
import importlib
import mmap
import os
import random
import re
import shutil
import signal
import sys
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from typing import Any, NoReturn

from tests.integration.forked_torch import of_start

_IMPORT = re.compile(rb"\bimport\b.*\btorch\b|\bfrom torch\b")
_HIDDEN = ("torch", "torchgen", "functorch")
_SHIMS = ("libkerncap_cuda.so", "libkerncap_hip.so")


def served(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
    """Whether the program of this command line would be a fork."""
    if "--" not in words:
        return False
    return needs_torch(list(words[words.index("--") + 1 :]), folder, environment)


def needs_torch(command: list[str], folder: Path, environment: Mapping[str, str]) -> bool:
    """Whether it is `python [-W ACTION] FILE ...`, by this Python, and FILE imports torch. Not with a GPU."""
    _, arguments = _parsed(command)
    if not arguments or Path("/dev/nvidia0").exists():
        return False
    python = shutil.which(command[0], path=environment.get("PATH"))
    if python is None or os.path.dirname(python) != os.path.dirname(sys.executable):
        return False
    try:
        return arguments[0].endswith(".py") and bool(_IMPORT.search((folder / arguments[0]).read_bytes()))
    except OSError:
        return False


def _parsed(command: list[str]) -> tuple[list[str], list[str]]:
    """The actions of `-W`, and the file with its arguments."""
    actions, rest = [], command[1:]
    while rest[:1] == ["-W"]:
        actions.append(rest[1])
        rest = rest[2:]
    return actions, rest


class Torch:
    """What `import torch` has loaded: taken away in a command, to be found again by a program."""

    def __init__(self) -> None:
        self._of_start = dict(sys.modules)
        self._spawn = os.posix_spawnp
        self._path, self._filters = list(sys.path), list(warnings.filters)
        self._modules = {name: sys.modules[name] for name in sys.modules if name.split(".")[0] in _HIDDEN}
        self._specs = {name: module.__spec__ for name, module in self._modules.items()}
        for name in self._modules:
            del sys.modules[name]

    def install(self) -> None:
        """In a command: the programs that it starts are forks, if they can be."""
        own, at_start = self._spawn, without_kerncap(os.environ)

        def spawn(
            path: str, argv: list[str], env: dict[str, str], *, file_actions: Any, **options: Any
        ) -> int:
            if without_kerncap(env) != at_start or not needs_torch(argv, Path.cwd(), env):
                return own(path, argv, env, file_actions=file_actions, **options)
            pid = os.fork()
            if not pid:
                self.be(argv, env, file_actions, **options)
            return pid

        os.posix_spawnp = spawn  # type: ignore[assignment]

    # --- in the program ------------------------------------------------------------------------------

    def be(
        self, argv: list[str], environment: dict[str, str], file_actions: Any = (), setsigmask: Any = (),
        setsigdef: Sequence[int] = (),
    ) -> NoReturn:  # fmt: skip
        """This process is the program from here on."""
        status = 1
        try:
            for _, fd, becomes in file_actions:
                os.dup2(fd, becomes)
            for fd in map(int, os.listdir("/proc/self/fd")):
                with contextlib.suppress(OSError):
                    if fd > 2 and not os.get_inheritable(fd):
                        os.close(fd)
            _signals_of_start(setsigdef)
            os.environ.clear()
            os.environ.update(environment)
            self._modules_of_start()
            signal.pthread_sigmask(signal.SIG_SETMASK, setsigmask)
            kept = _elsewhere()
            actions, arguments = _parsed(argv)
            sys.warnoptions.extend(actions)
            warnings._processoptions(actions)  # type: ignore[attr-defined]
            sys.argv, sys.orig_argv = arguments, list(argv)
            _sitecustomize()
            status = _run(arguments[0])
            del kept
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)

    def _modules_of_start(self) -> None:
        atexit._clear()
        os.posix_spawnp, sys.excepthook = self._spawn, sys.__excepthook__
        sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
        warnings.filters[:] = self._filters  # type: ignore[index]
        for name in set(sys.modules) - set(self._of_start):
            del sys.modules[name]
        for name, module in self._of_start.items():
            if name not in self._modules:
                sys.modules[name] = module
        folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        new = [folder for folder in folders if folder and folder not in self._path]
        sys.path[:] = [*new, *self._path]
        sys.meta_path.insert(0, self)
        for other in list(sys.meta_path):
            if type(other).__module__.startswith("kerncap"):
                sys.meta_path.remove(other)
        gc.set_threshold(700, 10, 10)
        gc.enable()

    # --- as a finder and loader of modules ---------------------------------------------------------------

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        return spec_from_loader(name, self, is_package=False)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        own = next(name for name, each in self._modules.items() if each is module)
        module.__spec__ = self._specs[own]
        if own != "torch":
            return
        watched = {name for finder in sys.meta_path for name in getattr(finder, "_watched", ())}
        for name, each in self._modules.items():
            if name not in watched:
                sys.modules.setdefault(name, each)
        for name in self._modules:
            if name in watched and name != "torch":
                importlib.import_module(name)


def without_kerncap(environment: Mapping[str, str]) -> dict[str, str]:
    """What `of_start` says, but for what kerncap puts in front."""
    found = of_start(environment)
    for name, is_ours in (("LD_PRELOAD", _is_shim), ("PYTHONPATH", _is_hook)):
        rest = [entry for entry in found.pop(name, "").split(":") if entry and not is_ours(entry)]
        if rest:
            found[name] = ":".join(rest)
    return found


def _is_shim(entry: str) -> bool:
    return os.path.basename(entry) in _SHIMS


def _is_hook(entry: str) -> bool:
    return os.path.exists(os.path.join(entry, "kerncap_triton"))


def _signals_of_start(to_default: Sequence[int]) -> None:
    for number in signal.valid_signals():
        if number in to_default or callable(signal.getsignal(number)):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does when it starts
        signal.signal(number, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _elsewhere() -> object:
    """Memory that moves what is allocated later: two programs have different addresses."""
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    return mmap.mmap(-1, mmap.PAGESIZE * random.SystemRandom().randrange(1, 1 << 14)), bytearray(
        random.SystemRandom().randrange(1, 1 << 16)
    )


def _sitecustomize() -> None:
    for entry in os.environ.get("LD_PRELOAD", "").split(":"):
        if entry:
            ctypes.CDLL(entry, mode=ctypes.RTLD_GLOBAL)
    sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise


def _run(file: str) -> int:
    """As Python runs its main file; the exit status."""
    path = os.path.abspath(file)
    sys.path.insert(0, os.path.dirname(os.path.realpath(file)))
    main: Any = types.ModuleType("__main__")
    main.__file__, main.__builtins__, main.__loader__ = path, builtins, SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    status = 0
    try:
        exec(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), vars(main))
    except SystemExit as ended:
        if isinstance(ended.code, int):
            status = ended.code & 0xFF
        elif ended.code is not None:
            print(ended.code, file=sys.stderr)
            status = 1
    except BaseException as error:
        trace = error.__traceback__
        sys.excepthook(type(error), error, trace and trace.tb_next)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status
