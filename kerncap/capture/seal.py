"""Makes a reproducer of one finished launch of a session."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerncap import env, log
from kerncap.capture import languages, native_seal
from kerncap.capture import manifest as manifests
from kerncap.capture.payloads import CompleteRecord, LaunchRecord, OrderingCall, StateBytes
from kerncap.capture.process_log import ProcessLog
from kerncap.capture.read_progress import Followed
from kerncap.capture.session_folder import Session
from kerncap.capture.source.wanted_source import FoundSource
from kerncap.capture.zero_ranges import Split, split
from kerncap.errors import CaptureError, KerncapError
from kerncap.format import ReproducerWriter, schema
from kerncap.format.packing import UNIT_BYTES
from kerncap.format.region_sources import StripedFiles
from kerncap.time_left import TimeLeft

SAY_SIZE_ABOVE = 100 * 1000 * 1000
MAX_CODE_BYTES = 1 << 30
MAX_SOURCE_GRAPH_BYTES = 256 << 20
_HEAP = (
    "its module calls the device's malloc; what earlier launches left on that heap is not captured, and a "
    "replay that reaches it is undecided"
)


@dataclass(frozen=True)
class SealedLaunch:
    """A reproducer that is complete on disk."""

    path: Path
    kernel: str
    qualified_name: str
    ordinal: int
    grid: tuple[int, int, int]
    regions_bytes: int
    disk_bytes: int
    oracle: str
    closure_mode: str = "args"
    pid: int = 0
    rank: int | None = None
    local_rank: int | None = None
    range: tuple[str, ...] = ()  # NVTX
    generation: int = 0  # of the `kerncap arm` that chose it
    position: int | None = None  # in the order of all launches, with a range of launches
    launches: int = 1  # more in a range
    number: int = 0  # of the captures of its process
    order: tuple[OrderingCall, ...] | None = None  # what came since the launch before it, of a range
    collective: str | None = None  # the id of the launch that all ranks made together


class Sealer:
    """Seals launches of one session into one output folder."""

    def __init__(
        self,
        session: Session,
        output: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        keep_raw: bool = False,
        source_dirs: Sequence[Path] = (),
    ) -> None:
        self._session = session
        self._output = output
        self._command = command
        self._environment = environment
        self._keep_raw = keep_raw
        self._source_dirs = tuple(source_dirs)

    def is_lost(self, process: ProcessLog, launch: LaunchRecord) -> bool:
        """Whether the pre-state was in a memfd that nobody holds any more: no later try can seal it."""
        number = launch.pre.memfd if launch.pre is not None else None
        return number is not None and self._session.memfd(process.name, number) is None

    def seal(
        self,
        process: ProcessLog,
        launch: LaunchRecord,
        complete: CompleteRecord | None,
        oracle: schema.Oracle,
        notes: Sequence[str] = (),
        annotated_by: ProcessLog | None = None,
    ) -> SealedLaunch:
        """Write the reproducer, rename it into place, drop the session's raw bytes of it.

        ``annotated_by`` is the hook's side of the process if ``launch`` is joined of both: code and
        source lie there, the memory with ``process``. Raises CaptureError with one clear line; nothing
        half-written is left behind then.
        """
        if launch.mode == "native":
            launch = native_seal.with_short_name(launch)
        what = f"{log.one_line(launch.kernel.name, 80)} (launch {launch.ordinal})"
        try:
            manifests.check_indices(launch)
            # The stack outlives the writer, whose threads read from these files.
            with contextlib.ExitStack() as files:
                state = self._open_pre(files, process, launch)
                parts = Split(launch, complete)
                if launch.sparse and state is not None:
                    parts = split(launch, complete, state)
                total = sum(region.size for region in parts.launch.regions)
                writer = ReproducerWriter(self._output_of(process), launch.kernel.name, total)
                files.enter_context(writer)
                if total > SAY_SIZE_ABOVE:
                    log.line(f"{what}: writing {log.size(total)} to {self._output}")
                path = self._write(
                    writer, files, process, annotated_by or process, parts, state, oracle, list(notes)
                )
        except OSError as error:
            raise CaptureError(f"{what}: {_explain(error, self._output)}") from error
        except (KerncapError, ValueError) as error:
            raise CaptureError(f"{what}: {error}") from error
        if not self._keep_raw:
            self._remove_raw(process, launch, complete)
        self._mark(process, launch.launch, path)
        return SealedLaunch(
            path=path,
            kernel=launch.kernel.name,
            qualified_name=launch.kernel.qualified_name,
            ordinal=launch.ordinal,
            grid=launch.grid,
            regions_bytes=total,
            disk_bytes=size_on_disk(path),
            oracle=oracle.kind,
            closure_mode=launch.closure.mode,
            pid=process.pid,
            rank=process.rank,
            local_rank=process.process.local_rank if process.process is not None else None,
            range=launch.range,
            generation=launch.generation,
            position=launch.position,
            number=launch.launch,
            order=launch.order,
            collective=launch.collective.id if launch.collective is not None else None,
        )

    def _output_of(self, process: ProcessLog) -> Path:
        """Ranks have folders of their own."""
        if process.rank is None:
            return self._output
        folder = self._output / f"rank{process.rank}"
        folder.mkdir(exist_ok=True)
        return folder

    def _environment_of(self, process: ProcessLog) -> dict[str, str]:
        ranks = {}
        if process.process is not None:
            ranks = {"RANK": process.process.rank, "LOCAL_RANK": process.process.local_rank}
        known = {name: str(number) for name, number in ranks.items() if number is not None}
        return {**self._environment, **known}

    def _write(
        self,
        writer: ReproducerWriter,
        files: contextlib.ExitStack,
        process: ProcessLog,
        texts: ProcessLog,
        parts: Split,
        state: StripedFiles | None,
        oracle: schema.Oracle,
        notes: list[str],
    ) -> Path:
        launch, complete = parts.launch, parts.complete
        self._write_pre(writer, launch, state)
        if complete is not None:
            self._write_post(writer, files, process, launch, complete)
        code = [
            writer.add_code(item.stage, texts.read_file(item.file, MAX_CODE_BYTES))
            for item in (complete.code if complete is not None else ())
        ]
        image = native_seal.Image()
        if launch.mode == "native":
            image = native_seal.read_image(process, launch)
            notes += image.notes
            code += [writer.add_code(stage, data) for stage, data in image.stages]
            if native_seal.uses_heap(image):
                log.line(f"{log.one_line(launch.kernel.name, 80)}: {_HEAP}")
                notes.append(f"{_HEAP[0].upper()}{_HEAP[1:]}.")
        elif launch.image is not None and not code:  # the hook could not say: its process died
            image = native_seal.read_image(process, launch)
            code = [writer.add_code(stage, data) for stage, data in image.stages]
        launch, source, found = self._write_source(writer, texts, launch, image, notes)
        if launch.mode == "native":
            launch = native_seal.with_arguments(launch, image, found.parameters if found is not None else ())
        has_values = launch.pre is not None or not launch.regions
        if launch.closure.not_held:
            notes.append("Only described: it needs what no reproducer can hold (closure.not_held).")
        elif not has_values:
            notes.append("Captured with --no-values: the memory's contents are left out.")
        manifest = manifests.build_manifest(
            launch,
            complete,
            process=texts.process,
            oracle=oracle,
            command=self._command,
            environment=self._environment_of(process),
            memory=writer.finish_memory(),
            code=code,
            compiled=image.facts,
            source=source,
            functions=found.functions if found is not None else (),
            zeros=parts.zeros,
            notes=notes,
        )
        return writer.seal(manifest)

    def _open_pre(
        self, files: contextlib.ExitStack, process: ProcessLog, launch: LaunchRecord
    ) -> StripedFiles | None:
        if launch.pre is None or not launch.regions:
            return None
        return self._open_state(files, process, launch.pre)

    def _write_pre(self, writer: ReproducerWriter, launch: LaunchRecord, state: StripedFiles | None) -> None:
        total = sum(region.size for region in launch.regions)
        left, before = TimeLeft(f"{log.one_line(launch.kernel.name, 80)}: writing", in_bytes=True), 0

        def reached(done: int) -> None:
            left(done, total)

        for number, region in enumerate(launch.regions):
            source = Followed(state, reached, before) if state is not None else None
            writer.add_region_pre(number, region.size, source, launch.pre_offsets[number] if state else 0)
            before += region.size

    def _write_post(
        self,
        writer: ReproducerWriter,
        files: contextlib.ExitStack,
        process: ProcessLog,
        launch: LaunchRecord,
        complete: CompleteRecord,
    ) -> None:
        if complete.post is None or not complete.chunks:
            return
        unit = schema.CHUNK_BYTES
        state = self._open_state(files, process, complete.post)
        left = TimeLeft(f"{log.one_line(launch.kernel.name, 80)}, what it changed: writing", in_bytes=True)
        position = 0
        for number, chunk, count in _runs(complete.chunks, UNIT_BYTES // unit):
            size = launch.regions[number].size if number < len(launch.regions) else 0
            length = min(count * unit, size - chunk * unit)
            if length <= (count - 1) * unit:
                raise CaptureError(f"post-state chunk {chunk + count - 1} is outside region {number}")
            left(position * unit, len(complete.chunks) * unit)
            writer.add_post_chunks(number, chunk, length, state.loader(position * unit, length))
            position += count

    def _write_source(
        self,
        writer: ReproducerWriter,
        process: ProcessLog,
        launch: LaunchRecord,
        image: native_seal.Image,
        notes: list[str],
    ) -> tuple[LaunchRecord, schema.Source | None, FoundSource | None]:
        """The launch with the place of its kernel's source, the source, and what was found.

        A source that can't be found is a note in the manifest, not a lost launch.
        """
        if launch.mode != "native" and launch.source is None:
            return launch, None, None
        request = native_seal.source_request(launch, image, process, self._source_dirs)
        if launch.mode != "native" and launch.source is not None:
            read = functools.partial(process.read_file, launch.source, MAX_SOURCE_GRAPH_BYTES)
            request = dataclasses.replace(request, graph=read)
        try:
            found = languages.find(request)
        except (OSError, ValueError, LookupError, RecursionError) as error:
            # Files of any kind are read there: what one of them is like must not cost the launch.
            notes.append(log.one_line(f"the source could not be looked for: {env.hide_home(str(error))}"))
            return launch, None, None
        source = found.store(writer.add_source)
        if found.kernel_file is not None:
            file = env.hide_home(found.kernel_file)[:4096]
            kernel = msgspec.structs.replace(launch.kernel, file=file, line=found.kernel_line)
            launch = msgspec.structs.replace(launch, kernel=kernel)
        # With a file in its place (PTX), why there is no better one stands in the source itself.
        said = [*found.notes, *((found.missing,) if found.missing and source is None else ())]
        notes += dict.fromkeys(log.one_line(note) for note in said)
        return launch, source, found

    def _open_state(
        self, files: contextlib.ExitStack, process: ProcessLog, state: StateBytes
    ) -> StripedFiles:
        """The bytes that ``state`` names; what is opened closes with ``files``."""
        if state.file is not None:
            descriptors = []
            for name in state.files():
                descriptors.append(process.open_file(name))
                files.callback(os.close, descriptors[-1])
            return StripedFiles(descriptors, state.stripe_bytes)
        descriptor = self._session.memfd(process.name, state.memfd if state.memfd is not None else -1)
        if descriptor is None:
            gone = "its bytes were in the memory of the kerncap that was killed"
            raise CaptureError(gone if self._session.server is None else "its memfd was never handed over")
        # A description of its own: the session's descriptor keeps its offset and its life.
        own = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        files.callback(os.close, own)
        return StripedFiles([own])

    def _remove_raw(self, process: ProcessLog, launch: LaunchRecord, complete: CompleteRecord | None) -> None:
        for state in (launch.pre, complete.post if complete is not None else None):
            for name in state.files() if state is not None else ():
                with contextlib.suppress(OSError):
                    os.unlink(process.folder / name)
            if state is not None and state.memfd is not None:
                self._session.release_memfd(process.name, state.memfd)

    @staticmethod
    def _mark(process: ProcessLog, launch: int, path: Path) -> None:
        """So that a later `kerncap seal` of a kept session does not do it again; `kerncap arm` reads it."""
        unfinished = process.folder / f".{launch}.sealed.tmp"
        with contextlib.suppress(OSError):
            unfinished.write_bytes(os.fsencode(path))  # as the system has it: a path need not be UTF-8
            os.rename(unfinished, process.folder / f"{launch}.sealed")


def _runs(chunks: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[int, int, int]]:
    """(region, chunk, how many) of chunks that follow each other, in the order that they are listed."""
    run: tuple[int, int, int] | None = None
    for region, chunk in chunks:
        if run is not None and (region, chunk) == (run[0], run[1] + run[2]) and run[2] < most:
            run = (*run[:2], run[2] + 1)
            continue
        if run is not None:
            yield run
        run = region, chunk, 1
    if run is not None:
        yield run


def _explain(error: OSError, output: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        try:
            free = f", {log.size(shutil.disk_usage(output).free)} free"
        except OSError:
            free = ""
        return f"no space left on the device of {output}{free}; nothing was left half-written"
    return f"{error.filename or output}: {error.strerror or error}"


def size_on_disk(path: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())
