"""The variants of a launch that a worker has: the captured kernel, candidates, other configurations."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerncap.errors import BackendUnavailable, KerncapError, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.replay.compiled_apart import CompiledApart
from kerncap.replay.connection import Connection
from kerncap.replay.outcome import CandidateError, Compiled, Config, Facts, Loaded
from kerncap.replay.worker.job import of_launch
from kerncap.replay.worker.protocol import (
    Backend,
    HipImage,
    Image,
    KernelOfSource,
    Place,
    TritonImage,
    Variation,
)
from kerncap.replay.worker_process import Program, Refusal, TargetError, WorkerFailed, WorkerKilled
from kerncap.time_limits import START_S

if TYPE_CHECKING:
    from kerncap.replay.candidates import Built

ORIGINAL: Final = "original"
CANDIDATE: Final = "candidate"
CAPTURED = "captured"
REBUILT = "rebuilt"

IMAGES = (".cubin", ".fatbin", ".ptx")
CODE_OBJECTS = (".hsaco", ".co")
TRITON_STAGES = (".ttir", ".ttgir", ".llir", ".ptx", ".cubin")


class Variants:
    """Loads variants into whatever worker there is, under their names."""

    def __init__(
        self, reproducer: Reproducer, connection: Connection, facts: Facts, timeout_s: float,
        program: Program,
    ) -> None:  # fmt: skip
        """``program`` starts a compiler."""
        self._reproducer = reproducer
        self._connection = connection
        self._facts = facts
        self._timeout_s = timeout_s
        self._program = program
        self.ran_python = False  # of a candidate, in the worker, though it was to run apart
        self._loaded: dict[str, Loaded] = {}
        self._compiled: dict[str, Compiled] = {}
        self._builds: dict[str, Path] = {}  # variant -> the folder of its built image
        self._numbers = itertools.count()
        self._apart = CompiledApart(
            connection.job, connection.choice.python, START_S + timeout_s, program
        )  # fmt: skip

    @property
    def launcher(self) -> str:
        return self._connection.choice.launcher

    def reload(self) -> None:
        """Give a new worker all that the one before had, the original first."""
        if ORIGINAL not in self._loaded:
            self._loaded[ORIGINAL] = self._first()
        for which, loaded in list(self._loaded.items()):
            try:
                self._load(which, loaded)
            except KerncapError:
                if which == ORIGINAL:
                    raise
                self._forget(which)  # one that no longer loads must not keep every worker from its work

    def is_loaded(self, name: str) -> bool:
        return name in self._loaded

    def config(self, name: str) -> Config | None:
        """The configuration of a variant that is loaded, in place of the captured one."""
        return self._loaded[name].variation.config

    def loadable(self, name: str) -> tuple[Path, Image | None]:
        """The file that the worker made a loaded variant of, and what its compiler says of it."""
        path, image = self._resolved(self._loaded[name])
        return Path(path), image

    def compiled(self, name: str) -> Compiled:
        """What a variant was compiled to. Raises ReplayError for one that is not loaded."""
        if name not in self._compiled:
            raise ReplayError(f"{name}: not loaded, so there is nothing to say about it")
        return self._compiled[name]

    def unload(self, name: str) -> None:
        """Free what a variant holds, and what was derived from it; nothing happens if it is not loaded."""
        for each in [key for key in self._loaded if key == name or key.startswith(f"{name} with ")]:
            self._connection.call(Backend.unload, each)
            self._forget(each)

    def unload_all(self) -> None:
        """Free every variant but the original."""
        for each in [key for key in self._loaded if key != ORIGINAL]:
            self.unload(each)
        self._apart.forget_but(self._stored_source)

    def candidate(self, name: str, path: Path) -> None:
        """Make a file the variant ``name``. Raises CandidateError with the reason why it can't be run."""
        if not path.is_file():
            raise ReplayError(f"{path}: no such candidate file")
        path = path.resolve()
        self._check_suffix(path)
        self.unload(name)
        started = time.monotonic()
        loaded, cached = self._image(name, path) if self._builds_images else (Loaded(str(path)), False)
        built_ms = (time.monotonic() - started) * 1e3
        try:
            self._tried(name, loaded)
        except CandidateError:
            self._forget(name)
            raise
        if self._builds_images:
            found = self._compiled[name]
            self._compiled[name] = dataclasses.replace(
                found, compile_ms=built_ms + found.compile_ms, cached=cached
            )

    def configured(self, name: str, config: Config, path: Path | None) -> Compiled:
        """The original's source, or that in ``path``, compiled and launched as ``config`` says."""
        if not self._connection.choice.compiles:
            raise UsageError(
                f"the {self._connection.choice.name} engine launches what is compiled already: "
                "another configuration needs a Triton kernel's source (--engine jit or interpreter)"
            )
        if name == ORIGINAL:
            raise UsageError(f"{ORIGINAL} is the captured configuration: choose another name")
        if path is not None and not path.is_file():
            raise ReplayError(f"{path}: no such candidate file")
        self.unload(name)
        file = self._source_of_original if path is None else path.resolve()
        self._tried(name, Loaded(str(file), Variation(config)))
        return self._compiled[name]

    def build_ahead(self, config: Config) -> None:
        """Compile the original's source apart, so that `configured` finds it; from any thread."""
        self._apart.image(self._source_of_original, Variation(config), self._facts.arch)

    def begin(self, path: Path | None = None, config: Config | None = None) -> None:
        """Begin to compile a module, or the stored source, which will be loaded if that is done apart.

        For the device that the launch had, as long as it is not known which one is here.
        """
        choice, arch = self._connection.choice, self._facts.arch or self._reproducer.manifest.device.arch
        if choice.torch_free and arch and (path is not None or choice.source):
            self._apart.begin(path or self._stored_source, Variation(config), arch)

    def with_scalars(self, which: str, scalars: Mapping[str, str]) -> str:
        """``which`` with other values of numeric arguments, loaded under the name that this gives."""
        if not scalars:
            return which
        name = f"{which} with {', '.join(f'{key}={value}' for key, value in scalars.items())}"
        if name not in self._loaded:
            loaded = self._loaded[which]
            varied = dataclasses.replace(loaded.variation, scalars=dict(scalars))
            self._load(name, dataclasses.replace(loaded, variation=varied))
        return name

    def launch_of_range(
        self, name: str, number: int, candidate: Path | None = None, config: Config | None = None
    ) -> None:
        """Another launch of a range under ``name``: as it was captured, or by a kernel of a module."""
        variation = Variation(config, launch=number)
        path, image = str(candidate or self._original(number)), None
        if candidate is not None and self.launcher == "native":
            path, image = self._apart.image(candidate, variation, self._facts.arch)
        self._tried(name, Loaded(path, variation, image))

    def launch_of_source(self, name: str, number: int, image: Path, kernel: KernelOfSource) -> None:
        """A launch of a range under ``name``, by a kernel of a source's image."""
        self._tried(name, Loaded(str(image), Variation(launch=number), kernel))

    def build_new(self, path: Path, text: bytes, like: Reproducer | None) -> Path:
        """The image of a source that the application did not have, compiled like that of a launch.

        Raises CandidateError if it does not compile, BackendUnavailable if there is no compiler.
        """
        from kerncap.replay import candidates

        choice, out = self._connection.choice, self._new_folder()
        hidden = self._hidden(choice.stranger or choice.hostile)
        return self._compiled_by(lambda: candidates.compile_new(
            like, self._is_hip, path, text, self._facts.arch, out, choice.python, hidden, choice.prefix
        )).path  # fmt: skip

    def image_of_capture(self) -> None:
        """Load the captured image. Raises BackendUnavailable if nothing was captured to load."""
        content = self._connection.job.content
        path = content["images"][0] if self.launcher == "native" else content["code"].get("cubin")
        if path is None:
            raise BackendUnavailable("the captured image", "the reproducer holds none (cubin)")
        if self.launcher == "interpreter":
            raise BackendUnavailable("the captured image", "it needs a CUDA device: --engine jit or binary")
        self._tried(CAPTURED, Loaded(str(self._connection.job.folder / path)))

    def rebuilt(self) -> None:
        """Load the stored source as this environment compiles it.

        Raises BackendUnavailable if there is no source or no compiler, CandidateError if it does not
        compile.
        """
        source = self._reproducer.manifest.source
        if source is None:
            raise BackendUnavailable("a rebuilt kernel", "the kernel's source was not found at capture")
        if source.language == "python-dsl" and source.build is None:
            raise BackendUnavailable("a rebuilt kernel", "kerncap has no compiler for the kernel's source")
        if not self._builds_images:
            self._tried(REBUILT, Loaded(str(self._stored_source)))
            return
        self.candidate(REBUILT, self._as_unit(self._stored_source))

    def _as_unit(self, source: Path) -> Path:
        """A stored source under a name that tells its language: what NVRTC was given may have none."""
        from kerncap.replay import candidates

        if source.suffix in candidates.suffixes(self._reproducer) or self._is_triton:
            return source
        named = self._connection.job.folder / "rebuilt" / ("rebuilt.hip" if self._is_hip else "rebuilt.cu")
        named.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, named)
        return named

    # --- loading ---------------------------------------------------------------------------------------

    def _first(self) -> Loaded:
        """The original: as it was captured, or what its stored source becomes."""
        if not self._connection.choice.source:
            return Loaded(str(self._original()))
        if not self._builds_images:
            return Loaded(str(self._stored_source))
        return self._image(ORIGINAL, self._stored_source)[0]

    def _original(self, number: int | None = None) -> Path:
        content = of_launch(self._connection.job.content, number)
        path = {
            "native": content["images"][0] if content["images"] else None,
            "binary": content["code"].get("cubin"),
        }.get(self.launcher, content["source"])
        return self._connection.job.folder / str(path)

    @property
    def _stored_source(self) -> Path:
        return self._connection.job.folder / str(self._connection.job.content["source"])

    @property
    def _source_of_original(self) -> Path:
        """What other configurations are made of: the original may be an image by now."""
        return self._stored_source if self._builds_images else Path(self._loaded[ORIGINAL].path)

    @property
    def _builds_images(self) -> bool:
        """Whether a source is made into an image before it is loaded, once for all its configurations."""
        return self.launcher == "native" and not self._connection.choice.torch_free

    @property
    def _images(self) -> tuple[str, ...]:
        return CODE_OBJECTS if self._is_hip else IMAGES

    @property
    def _is_hip(self) -> bool:
        return self._connection.choice.memory == "hip"

    @property
    def _is_triton(self) -> bool:
        return self._reproducer.manifest.kernel.language == "triton"

    def _check_suffix(self, path: Path) -> None:
        from kerncap.replay import candidates

        sources = (".py",) if self._is_triton else tuple(candidates.suffixes(self._reproducer))
        accepted = {
            "native": tuple({*self._images, *sources} - ({".ptx"} if self._is_hip else set())),
            "jit": (".py", *TRITON_STAGES),
            "binary": TRITON_STAGES,
        }.get(self.launcher, (".py",))
        if path.suffix in accepted:
            return
        if self.launcher == "interpreter" and path.suffix in TRITON_STAGES:
            raise UsageError(
                f"{path}: {path.suffix} is run on a CUDA device, the interpreter takes a .py file"
            )
        known = ", ".join(sorted(set(accepted)))
        raise UsageError(
            f"{path}: the {self._connection.choice.name} engine takes one of {known} as candidate"
        )

    def _image(self, name: str, path: Path) -> tuple[Loaded, bool]:
        """An image that the driver takes: the file itself, or what is built of it; whether it was at hand."""
        from kerncap.replay import candidates

        if path.suffix in self._images:  # the driver assembles PTX, and says best what is wrong with it
            return Loaded(str(path)), False
        out = self._builds[name] = self._new_folder()
        choice = self._connection.choice
        if self._is_triton:
            return self._of_triton(path, out), False
        own = self._connection.job.folder / "source" in path.parents or name == REBUILT
        hidden = self._hidden(choice.stranger or (choice.hostile and not own))
        built = self._compiled_by(lambda: candidates.compile_candidate(
            self._reproducer, path, self._facts.arch, out, choice.python, hidden, choice.prefix
        ))  # fmt: skip
        return Loaded(str(built.path)), built.cached

    def _new_folder(self) -> Path:
        folder = self._connection.job.folder / f"candidate-{next(self._numbers)}"
        folder.mkdir()
        return folder

    def _hidden(self, is_stranger: bool) -> tuple[Path, ...] | None:
        """What a compiler of a stranger's source may not read; None for one that may read all."""
        return (self._connection.job.folder / "regions", self._reproducer.path) if is_stranger else None

    def _compiled_by(self, build: Callable[[], Built]) -> Built:
        from kerncap.replay import candidates

        try:
            return build()
        except ReplayError as error:
            detail = getattr(error, "detail", "")
            place = candidates.first_place(detail or str(error))
            raise CandidateError(str(error), detail, **vars(place)) from error

    def _of_triton(self, path: Path, out: Path) -> Loaded:
        from kerncap.replay.candidates.triton_image import compile_triton

        job, python = self._connection.job.path, self._connection.choice.python
        limit_s = START_S + self._timeout_s
        made = compile_triton(job, path, self._facts.arch, out, python, limit_s, self._program)
        return Loaded(str(made.path), image=made.said)

    def _tried(self, name: str, loaded: Loaded) -> None:
        try:
            self._load(name, loaded)
        except (CandidateError, WorkerFailed):
            raise
        except (BackendUnavailable, ReplayError) as error:
            cause = error.__cause__
            if isinstance(cause, WorkerKilled):
                raise
            text = str(cause if isinstance(cause, Refusal | TargetError) else error)
            if not isinstance(cause, TargetError):
                raise CandidateError(text) from error
            raise CandidateError(text, cause.detail, **vars(cause.place or Place())) from error

    def _load(self, which: str, loaded: Loaded) -> None:
        self._forget_stages(which)
        stages = f"stages-{next(self._numbers)}"
        path, image = self._resolved(loaded)
        made = self._connection.call_within(
            START_S + self._timeout_s, Backend.load, which, path, stages,
            variation=loaded.variation, limit_s=self._timeout_s, image=image,
            hip=self._hip_image(path, loaded, image),
        )  # fmt: skip
        self._loaded[which] = loaded
        self._compiled[which] = self._facts_of(made.compiled)
        if self._connection.choice.torch_free and isinstance(image, TritonImage):
            self._facts.triton = str(image.metadata.get("triton_version", ""))
        if which in (ORIGINAL, CANDIDATE) and made.pointers is not None:
            facts = self._facts
            facts.pointers = made.pointers
            facts.relocated = sorted({*facts.relocated, *made.moved_variables})
            facts.notes += [note for note in made.notes if note not in facts.notes]

    def _resolved(self, loaded: Loaded) -> tuple[str, Image | None]:
        """What the worker is given: the file itself, or the image that a module was made into elsewhere."""
        choice, path = self._connection.choice, Path(loaded.path)
        if self.launcher == "native" and path.suffix == ".py":
            return self._apart.image(path, loaded.variation, self._facts.arch)
        if not ((choice.hostile or choice.apart) and self._is_strangers(path)):
            return loaded.path, loaded.image
        try:
            return self._apart.image(path, loaded.variation, self._facts.arch)
        except (BackendUnavailable, CandidateError):
            if choice.hostile:
                raise
            self.ran_python = True  # what may not read or write a file there compiles in the worker
            return loaded.path, loaded.image

    def _hip_image(self, path: str, loaded: Loaded, image: Image | None) -> HipImage | None:
        """What the worker has to know of a code object; of the captured images only that is used."""
        if not self._is_hip:
            return None
        from kerncap.replay import hip_code_places, hip_image_facts

        if isinstance(image, KernelOfSource):
            return hip_image_facts.of_file(Path(path), image.name, ())
        if isinstance(image, TritonImage):
            return hip_image_facts.of_file(Path(path), str(image.metadata.get("name", "")), ())
        launch = loaded.variation.launch
        folder, job = self._connection.job.folder, of_launch(self._connection.job.content, launch)
        stored = folder / job["code"]["hsaco"] if "hsaco" in job["code"] else None
        is_own = stored is not None and path in {str(folder / file) for file in job["images"]}
        variables = {region["name"] for region in job["regions"] if region["name"]}
        captured = hip_code_places.of_reproducer(
            self._reproducer if launch is None else self._reproducer.in_range[launch]
        )
        file = stored if is_own and stored is not None else Path(path)
        return hip_image_facts.of_file(file, job["symbol"], variables, captured, is_own)

    def _is_strangers(self, path: Path) -> bool:
        """Whether a module's Python would run in the worker and is not to be trusted."""
        own = self._connection.job.folder / "source"
        strange = self._connection.choice.stranger or own not in path.parents
        return self.launcher in ("jit", "binary") and path.suffix == ".py" and strange

    def _facts_of(self, found: Compiled) -> Compiled:
        folder = self._connection.job.folder
        return dataclasses.replace(
            found, stages={name: str(folder / path) for name, path in found.stages.items()}
        )

    def _forget(self, name: str) -> None:
        self._forget_stages(name)
        self._loaded.pop(name, None)
        self._compiled.pop(name, None)
        build = self._builds.pop(name, None)
        if build is not None:
            shutil.rmtree(build, ignore_errors=True)

    def _forget_stages(self, name: str) -> None:
        compiled = self._compiled.get(name)
        for folder in {Path(path).parent for path in compiled.stages.values()} if compiled else ():
            if folder.parent == self._connection.job.folder and folder.name.startswith("stages-"):
                shutil.rmtree(folder, ignore_errors=True)
