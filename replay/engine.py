"""The replay engine: one reproducer in one worker, restarted when a run kills it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from kerncap.errors import BackendUnavailable, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.replay import candidate_function_pointers, doubts, hip_code_places, peer_stores
from kerncap.replay.choose_engine import Choice, choose, image_instead, likely, without_torch
from kerncap.replay.connection import Connection
from kerncap.replay.outcome import CandidateError, Compiled, Config, ConfinedError, Facts, NotHeld, Outcome
from kerncap.replay.side_inputs import SideInputs, of_reproducer
from kerncap.replay.staging import Job, stage
from kerncap.replay.variants import CANDIDATE, CAPTURED, ORIGINAL, REBUILT, Variants
from kerncap.replay.worker.protocol import Backend, Image, KernelOfSource, Opened, Stores
from kerncap.replay.worker_process import Shared, WorkerDied, WorkerKilled, WorkerTimeout, program
from kerncap.replay.worker_times import WorkerTimes
from kerncap.time_limits import GRACE_S, LAUNCH_S

__all__ = ["CANDIDATE", "CAPTURED", "ORIGINAL", "REBUILT", "Engine"]

S = TypeVar("S")


class Engine(WorkerTimes):
    """Runs launches of one reproducer; a context manager.

    The operations work on the worker's memory: restore a state, poison, launch, compare. ``generation``
    grows with every restart: snapshots made before are gone.
    """

    one_launch = True  # a variant is one launch
    never_poisoned: frozenset[int] = frozenset()  # regions in which a launch may wait for other launches
    peers: peer_stores.PeerStores | None = None  # what other ranks store while the launch waits for it

    def __init__(
        self,
        reproducer: Reproducer,
        engine: str = "auto",
        device: str = "auto",
        python: str | None = None,
        timeout_s: float = LAUNCH_S,
        target_python: str | None = None,
        emulator: Path | None = None,
        choice: Choice | None = None,
        shared: Shared | None = None,
        hostile: bool = False,
        stranger: bool = False,
        apart: bool = False,
        torch_free: bool = False,
        candidate: Path | None = None,
    ) -> None:
        """``choice``: what was chosen already for a launch of this kind, so that nothing is asked again.

        ``shared``: what its workers are forks of. ``hostile``: no Python of a candidate runs where anything
        of the oracle can be reached; ``stranger``: nor of the stored source. ``apart``: no Python of a
        candidate that compiles elsewhere. ``torch_free``: the worker of a Triton launch needs no torch, if
        `choose_engine.without_torch` takes it; ``candidate``: what will be loaded then, which is compiled
        meanwhile.
        """
        self.reproducer = reproducer
        self.manifest = reproducer.manifest
        if self.manifest.closure.not_held:
            raise NotHeld(reproducer.path, self.manifest)
        self.timeout_s = timeout_s
        self.facts = Facts()
        self.shared = shared
        self.program = program if shared is None else shared.program
        self._ran_python = False
        self._snapshots: set[str] = set()
        self._source_notes: list[str] = []
        self._plain: tuple[int, Outcome] | None = None  # `Connection.changes` after it
        self._of_places: dict[tuple[int, ...], str] = {}  # by the regions that lie elsewhere
        self._mistrust = (hostile, stranger, apart)
        self._candidate = candidate
        asked = (engine, device, python, target_python, emulator)
        self._open_first(choice, asked, torch_free)
        self._at_first = list(self.facts.notes)
        try:
            self._learn()
        except BaseException:
            self.close()
            raise

    def _learn(self) -> None:
        """What other ranks do meanwhile, if this is one rank of several."""
        if self.manifest.collective is not None:
            self.peers = peer_stores.of_engine(self)
            if self.peers is not None:
                shared = (number for number, region in enumerate(self.manifest.regions) if region.shared)
                self.never_poisoned = frozenset(shared)

    def _open_first(
        self, choice: Choice | None, asked: tuple[str, str, str | None, str | None, Path | None],
        torch_free: bool,
    ) -> None:  # fmt: skip
        """The first worker: by what is likely, if nothing was asked for, else by what is chosen."""
        engine, device, python, _, emulator = asked
        is_open = choice is None and (engine, device, python, emulator) == ("auto", "auto", None, None)
        guess = likely(self.manifest, torch_free) if is_open else None
        if guess is not None:
            try:
                return self._open(guess)
            except (BackendUnavailable, ReplayError):
                chosen = choose(self.manifest, *asked)
                if chosen == guess:  # else that says what is missing
                    raise
        else:
            chosen = choice or choose(self.manifest, *asked)
        instead = without_torch(chosen, self.manifest) if torch_free else None
        if instead is not None and instead != guess:
            with contextlib.suppress(BackendUnavailable, ReplayError):  # with torch it says why
                return self._open(instead)
        self._open_chosen(chosen, choice is None, engine)

    def _open_chosen(self, chosen: Choice, is_free: bool, engine: str) -> None:
        """``is_free``: if the stored source can't be built, the captured image may be judged."""
        try:
            self._open(chosen)
        except (BackendUnavailable, ReplayError) as error:
            instead = image_instead(chosen, self.manifest, engine) if is_free else None
            if instead is None:
                raise
            said = str(error.__cause__ or error).partition("\n")[0]
            self._source_notes.append(
                f"the stored source is not judged, it can't be built here ({said}): the captured image is"
            )
            self._open(instead)

    def _open(self, chosen: Choice) -> None:
        """A worker with the original in it."""
        hostile, stranger, apart = self._mistrust
        choice = self.choice = dataclasses.replace(
            chosen, hostile=hostile or stranger or chosen.hostile, stranger=stranger or chosen.stranger,
            apart=apart or chosen.apart,
        )  # fmt: skip
        self._job: Job = self._staged(choice)
        ahead = None if self.shared is None else self.shared.nursery(choice)
        self.connection = Connection(choice, self._job, self._opened, ahead)
        self._variants = Variants(
            self.reproducer, self.connection, self.facts, self.timeout_s, self.program
        )  # fmt: skip
        self._variants.begin()
        if self._candidate is not None:
            self._variants.begin(self._candidate)
        try:
            self.connection.start()
        except BaseException:
            self.close()
            raise

    def _staged(self, choice: Choice) -> Job:
        return stage(
            self.reproducer, choice.launcher, choice.memory, choice.device, choice.hostile, choice.stranger
        )

    def _restart(self) -> None:
        """Replace a worker that a launch has ended."""
        self.connection.start()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.let_end()
        # Meanwhile: of gigabytes it takes as long as the worker's own. Python may read memory to its end.
        is_read = self.choice.launcher != "native" or not self.connection.is_idle
        self._job.give_up_memory(is_read)
        self.connection.close()
        self._job.close()

    def renew(self) -> None:
        """Put it back to what it was at first: no variant but the original, and all states as captured.

        Of a worker that is the first one still. Raises ReplayError.
        """
        self._variants.unload_all()
        self.drop_all()
        self.reload()
        self.facts.notes = list(self._at_first)

    @property
    def ran_python(self) -> bool:
        """Whether Python of a candidate or a reference ran in the worker, or where it was not confined."""
        return self._ran_python or self._variants.ran_python

    @property
    def generation(self) -> int:
        return self.connection.generation

    def log_tail(self) -> str:
        """The end of what kernel and worker printed."""
        return self.connection.log_tail()

    # --- variants ----------------------------------------------------------------------------------

    def load_candidate(self, path: Path) -> None:
        """Make ``path`` the candidate: an edited source, or a later stage of the compilation.

        What the candidate before it held is freed. Raises CandidateError with the reason: it does not import
        or compile, its signature is another one; UsageError for a file that this engine does not take.
        """
        self._loaded(CANDIDATE, path, lambda: self._variants.candidate(CANDIDATE, path))

    def load_configured(self, name: str, config: Config, path: Path | None = None) -> Compiled:
        """Load the original's source, or that in ``path``, with another configuration as variant ``name``.

        For a Triton kernel's source (JIT, interpreter). Raises CandidateError if it does not compile or
        load, UsageError for an engine that compiles nothing.
        """
        return self._loaded(name, path, lambda: self._variants.configured(name, config, path))

    def _loaded(self, name: str, path: Path | None, load: Callable[[], S]) -> S:
        """Load a variant; a candidate that needs torch where it runs, in a worker that has it."""
        if path is not None:
            self._ran(path)
        if self.peers is not None:
            self.peers.forget(name)
        try:
            return load()
        except CandidateError as error:
            elsewhere = isinstance(error, ConfinedError) or isinstance(error.__cause__, BackendUnavailable)
            if name != CANDIDATE or not (self.choice.torch_free and elsewhere):
                raise
        launcher = "jit" if self.choice.source else "binary"
        self.close()
        self._open(dataclasses.replace(self.choice, launcher=launcher, source=False, torch_free=False))
        return self._loaded(name, path, load)

    def _ran(self, path: Path) -> None:
        """A user's file is loaded: its Python may run in the worker, or in what could not be confined."""
        confined = self.choice.memory == "host" and not self.facts.unconfined
        elsewhere = self.choice.launcher == "native" or self.choice.hostile or self.choice.apart
        self._ran_python |= path.suffix == ".py" and not (confined or elsewhere)

    def begin_configured(self, config: Config, path: Path | None = None) -> None:
        """Begin to compile what `load_configured` will be asked for, if that is done apart."""
        self._variants.begin(path, config)

    def build_ahead(self, config: Config) -> None:
        """Compile the stored source of a stranger for another configuration, for `load_configured`.

        From any thread. Raises CandidateError if it does not compile.
        """
        self._variants.build_ahead(config)

    def load_captured(self) -> None:
        """Load the captured image. Raises BackendUnavailable if nothing was captured to load."""
        self._variants.image_of_capture()

    def load_rebuilt(self) -> None:
        """Load the stored source as this environment compiles it.

        Raises BackendUnavailable if source or compiler is missing, CandidateError with what its
        compiler says.
        """
        self._variants.rebuilt()

    def load_launch(
        self, name: str, number: int, candidate: Path | None = None, config: Config | None = None
    ) -> None:
        """Load another launch of a range as variant ``name``, of a module if there is a ``candidate``.

        ``config``: in place of the launch's own. Raises CandidateError if it does not load.
        """
        if candidate is not None:
            self._ran(candidate)
        self._variants.launch_of_range(name, number, candidate, config)

    def build_new(self, path: Path, text: bytes, like: Reproducer | None) -> Path:
        """The image of a source that the application did not have; see `Variants.build_new`."""
        return self._variants.build_new(path, text, like)

    def load_kernel(self, name: str, number: int, image: Path, kernel: KernelOfSource) -> None:
        """Load launch ``number`` of a range as variant ``name``: a kernel of what `build_new` made.

        Raises CandidateError if it does not load, or takes other arguments.
        """
        self._variants.launch_of_source(name, number, image, kernel)

    def unload(self, name: str) -> None:
        """Free a variant; nothing happens if it is not loaded. Raises UsageError for the original."""
        if name == ORIGINAL:
            raise UsageError(f"{ORIGINAL} stays: everything else is compared with it")
        self._variants.unload(name)

    def is_loaded(self, name: str) -> bool:
        """Whether a variant of that name can be launched."""
        return self._variants.is_loaded(name)

    def loadable(self, which: str) -> tuple[Path, Image | None]:
        """The file that a loaded variant was made of in the worker, and what its compiler says of it."""
        return self._variants.loadable(which)

    def config(self, which: str) -> Config | None:
        """The configuration that a loaded variant has in place of the captured one, if any."""
        return self._variants.config(which)

    def compiled(self, which: str) -> Compiled:
        """What a variant was compiled to. Raises ReplayError for one that is not loaded."""
        return self._variants.compiled(which)

    def variant(self, which: str, scalars: dict[str, str]) -> str:
        """``which`` with other values of numeric arguments, loaded under the name that this gives."""
        return self._variants.with_scalars(which, scalars)

    # --- running -----------------------------------------------------------------------------------

    def plain(self, which: str = ORIGINAL, timeout_s: float | None = None, shared: bool = False) -> Outcome:
        """Run one launch on the captured memory.

        ``shared``: of the captured kernel on the host memory may hold just that already, and its last launch
        answers, once.
        """
        known, self._plain = self._plain, None
        if shared and known is not None and which == ORIGINAL and known[0] == self.connection.changes:
            return known[1]
        self.restore()
        outcome = self.launch(which, timeout_s)
        if outcome.ok and which == ORIGINAL and self.choice.memory == "host":
            self._plain = self.connection.changes, outcome
        return outcome

    def launch(self, which: str = ORIGINAL, timeout_s: float | None = None) -> Outcome:
        """Run one launch in memory as it is. A dead worker is an outcome too, and is replaced."""
        limit = self.timeout_s if timeout_s is None else timeout_s
        if self.peers is not None and self.waits:
            return self.peers.launch(which, limit)
        return self.launch_among(which, limit, None)[0]

    @property
    def waits(self) -> bool:
        return self.peers is not None and self.choice.launcher == "native"

    def launch_among(
        self, which: str, limit: float, stores: list[Stores] | None
    ) -> tuple[Outcome, int]:  # fmt: skip
        """A launch with stores of other ranks meanwhile; and how many steps of them came before its end."""
        longest = limit + max(limit, GRACE_S) + GRACE_S
        try:
            if stores is None:
                ended = self.connection.request(longest, Backend.launch, which, limit_s=limit)
            else:
                longest += sum(step.after_s for step in stores)
                ended = self.connection.request(longest, Backend.launch_among, which, stores, limit_s=limit)
        except WorkerTimeout:
            self._restart()
            ending = f"the kernel did not end within {limit:g} s"
            return Outcome("timeout", ending, doubt=doubts.of_shared(self.manifest)), 0
        except WorkerKilled:
            self._restart()
            return Outcome("killed"), 0
        except WorkerDied as death:
            self._restart()
            return Outcome("fault", str(death), doubt=self._doubt_of_ending(which, str(death))), 0
        outcome = Outcome(
            ended.status, ended.message, ended.detail, ended.ns, ended.line, signals=ended.signals
        )
        if outcome.status in ("fault", "error"):
            doubt = self._doubt_of_ending(which, outcome.message)
            outcome = dataclasses.replace(outcome, doubt=doubt)
        if outcome.status == "timeout":
            outcome = dataclasses.replace(outcome, doubt=doubts.of_shared(self.manifest))
        return outcome, ended.steps

    def printed(self, which: str, limit: int) -> tuple[Outcome, bytes]:
        """Run one launch in memory as it is; and what was printed meanwhile, up to ``limit`` bytes."""
        at = self.connection.log_size()
        outcome = self.launch(which)
        return outcome, self.connection.log_from(at, limit)

    @functools.cached_property
    def side_inputs(self) -> SideInputs:
        """What the captured code reads beside its memory; on the host that is nothing."""
        return SideInputs() if self.choice.memory == "host" else of_reproducer(self.reproducer)

    def doubt(self) -> str:
        """Why a result of the captured kernel that is another one here may say nothing of it, if it may."""
        told = self.side_inputs.told
        return (
            self._doubt_of_place()
            or doubts.of_shared(self.manifest)
            or self._doubt_of_heap
            or (f"the kernel {told}" if told else "")
            or doubts.of_missing(self.manifest)
        )

    def doubt_of_functions(self, which: str) -> str:
        """Why a variant with an image of its own may call others by the same pointers, if it may."""
        if self.choice.memory == "host" or not self.is_loaded(which):
            return ""
        path, image = self.loadable(which)
        if self.manifest.device.kind == "hip":
            return hip_code_places.doubt(self.reproducer, path, self.pre_files())
        # Triton's kernels, of which the compiler says more, have no function pointers.
        return candidate_function_pointers.doubt(self.reproducer, path) if image is None else ""

    @functools.cached_property
    def captured_code(self) -> range:
        """The addresses that an AMD GPU's code object had in the application, if they are known."""
        code = None if self.choice.memory == "host" else hip_code_places.of_reproducer(self.reproducer)
        return range(0) if code is None else code.inside

    @property
    def pointed_at(self) -> list[range]:
        """What words of the launch's memory may point to beside its regions."""
        return [self.captured_code]

    def _doubt_of_ending(self, which: str, ending: str) -> str:
        """Of a launch that faulted: what may have led it astray; nothing if the captured kernel ends well."""
        if which != ORIGINAL and (doubt := self.doubt_of_functions(which)):
            return doubt
        doubt = (
            (doubts.HEAP if self.side_inputs.heap else "") or self._doubt_of_place() or self._doubt_of_heap
        )
        has_addresses = self.side_inputs.addresses or self.side_inputs.unplaced
        functions = doubts.FUNCTIONS if has_addresses else ""
        doubt = doubt or ", and ".join(filter(None, (doubts.of_runtime(self.side_inputs.runtime), functions)))
        doubt = doubt or doubts.of_shared(self.manifest)
        doubt = doubt or doubts.of_tagged(self.manifest, self.pre_files(), ending)
        if not doubt and self.choice.memory == "host":
            doubt = doubts.of_segfault(self.manifest, self.pre_files(), ending)
        doubt = doubt or doubts.of_missing(self.manifest)
        if doubt and which != ORIGINAL:
            self.restore()
            return "" if self.launch().ok else doubt
        return doubt

    @functools.cached_property
    def _doubt_of_heap(self) -> str:
        return doubts.of_heap(self.manifest, self.pre_files())

    def _doubt_of_place(self) -> str:
        """Of a relocated replay: the words that may be addresses still, and were not changed."""
        moved = tuple(self.facts.relocated)
        if moved not in self._of_places:
            self._of_places[moved] = doubts.of_moved(self.facts, self.manifest, self.pre_files())
        return self._of_places[moved]

    # --- the process -------------------------------------------------------------------------------

    def _opened(self, opened: Opened) -> None:
        """A new worker is there: what it says of itself, and everything loaded into it again."""
        facts = self.facts
        facts.device, facts.torch, facts.triton = opened.device, opened.torch, opened.triton
        # What Triton has just compiled goes by its version.
        facts.driver = "" if self.choice.torch_free and self.choice.source else opened.driver
        facts.arch, facts.unconfined, facts.at_once = opened.arch, opened.unconfined, opened.at_once
        facts.relocated = opened.relocated
        facts.pointers, facts.notes = None, [*self._source_notes, *opened.notes]
        if self.choice.emulator is not None:
            facts.notes.insert(0, f"on an emulated AMD GPU ({self.choice.emulator.folder})")
        self._variants.reload()
