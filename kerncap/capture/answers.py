"""Answers what a native shim asks: is this kernel wanted, which variables does this image have.

The target waits for each answer, so everything is decided once and kept.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from kerncap.capture import armed, images, languages, payloads
from kerncap.capture.images import amdgpu, host_file
from kerncap.capture.kernel_spellings import spellings
from kerncap.capture.options import CaptureOptions, Selection
from kerncap.capture.process_log import ProcessLog
from kerncap.capture.source.wanted_source import SourceRequest
from kerncap.errors import CaptureError
from kerncap.format.code_object import is_code_object
from kerncap.format.contract import key, word

MAX_KEPT = 100_000  # answers of one session
MAX_IMAGE = 1 << 30

Answer = dict[str, Any]


class _ImageFacts(Struct, frozen=True):
    kind: str = ""
    origin: str = ""
    mapped_from: str | None = None
    arch: str | None = None
    file: payloads.CodePath | None = None  # if the shim has stored it already


class _MatchQuestion(Struct, frozen=True):
    kernel: str
    demangled: str = ""
    image: _ImageFacts | None = None
    process: payloads.ProcessFolder | None = None
    generation: payloads.Count = 0


class _RangeQuestion(Struct, frozen=True):
    range: str
    generation: payloads.Count = 0


class _CodeQuestion(Struct, frozen=True):
    process: payloads.ProcessFolder
    image: payloads.CodePath
    kernel: str = ""
    arch: str | None = None


@dataclass(frozen=True)
class _Selection:
    """As much of a selection as questions are about."""

    kernel: re.Pattern[str] | None
    range: re.Pattern[str] | None
    needs_source: bool
    starts: re.Pattern[str] | None = None  # a range of launches
    ends: re.Pattern[str] | None = None

    @classmethod
    def of(cls, chosen: Selection, list_only: bool) -> _Selection:
        return cls(
            re.compile(chosen.kernel) if chosen.kernel is not None else None,
            re.compile(chosen.range) if chosen.range is not None else None,
            chosen.is_default and not list_only,
            re.compile(chosen.from_kernel) if chosen.from_kernel is not None else None,
            re.compile(chosen.to_kernel) if chosen.to_kernel is not None else None,
        )


class Answers:
    """The answers of one session. `answer` may be called from several threads."""

    def __init__(self, folder: Path, options: CaptureOptions) -> None:
        self._folder = folder
        self._selections = {0: _Selection.of(options.selection, options.run.list_only)}
        self._source_dirs = options.run.source_dirs
        self._kept: dict[tuple[object, ...], Answer] = {}
        self._lock = threading.Lock()

    def answer(self, question: dict[str, Any]) -> Answer:
        """The answer as docs/session.md has it; an empty one to what is not understood."""
        try:
            ask = question.get(key.ask)
            if ask == word.ask.match:
                asked = payloads.convert(question, _MatchQuestion, word.ask.match)
                image = asked.image or _ImageFacts()
                place: tuple[object, ...] = (ask, asked.kernel, image, asked.generation)
                return self._once(place, lambda: self._match(asked, image))
            if ask == word.ask.range:
                within = payloads.convert(question, _RangeQuestion, word.ask.range)
                selection = self._selection(within.generation)
                return {key.match: selection.range is None or bool(selection.range.search(within.range))}
            if ask == word.ask.globals:
                about = payloads.convert(question, _CodeQuestion, word.ask.globals)
                # An AMDGPU kernel's answer has its parameters, too.
                asked_for = about.kernel if (about.arch or "").startswith("gfx") else None
                place = (ask, about.process, about.image, about.arch, asked_for)
                return self._once(place, lambda: self._globals(about))
            if ask == word.ask.waits:
                code = payloads.convert(question, _CodeQuestion, word.ask.waits)
                place = (ask, code.process, code.image, code.arch, code.kernel)
                return self._once(place, lambda: {key.waits: self._waits(code)})
        except CaptureError:
            pass
        return {}

    def _once(self, place: tuple[object, ...], find: Callable[[], Answer]) -> Answer:
        with self._lock:
            kept = self._kept.get(place)
        if kept is None:
            kept = find()  # twice at worst: no thread waits for another one's image
            with self._lock:
                if len(self._kept) < MAX_KEPT:
                    self._kept[place] = kept
        return kept

    def _selection(self, generation: int) -> _Selection:
        """What a generation of `kerncap arm` selects; CaptureError for one that there is not."""
        known = self._selections.get(generation)
        if known is None:
            file = armed.session_file_of(self._folder, generation)
            known = self._selections[generation] = _Selection.of(file.selection, file.list_only)
        return known

    def _match(self, asked: _MatchQuestion, image: _ImageFacts) -> Answer:
        names = spellings(asked.kernel, asked.demangled)
        selection = self._selection(asked.generation)
        if selection.kernel is not None and not any(selection.kernel.search(name) for name in names):
            return {key.match: False, key.reason: word.filter.name}
        if selection.needs_source and not self._source_known(asked, image):
            return {key.match: False, key.reason: word.filter.no_source}
        return {
            key.match: True,
            **{
                name: True
                for name, pattern in ((key.starts, selection.starts), (key.ends, selection.ends))
                if pattern is not None and any(pattern.search(each) for each in names)
            },
        }

    def _source_known(self, asked: _MatchQuestion, image: _ImageFacts) -> bool:
        request = SourceRequest(
            mangled=asked.kernel,
            demangled=asked.demangled,
            kind=image.kind,
            origin=image.origin,
            mapped_from=image.mapped_from or "",
            session=self._folder,
            source_dirs=self._source_dirs,
            arch=image.arch,
        )
        return languages.is_known(request, image=lambda: self._image_of(asked, image))

    def _image_of(self, asked: _MatchQuestion, image: _ImageFacts) -> bytes | None:
        """The cubin or code object with the kernel, out of the session or the file that it is mapped from."""
        if image.file is not None and asked.process is not None:
            data = ProcessLog(self._folder / asked.process, 0).read_file(image.file, MAX_IMAGE)
            chosen = images.choose(data, image.arch, asked.kernel)
            return chosen.hsaco or chosen.cubin
        path = Path(image.mapped_from or "")
        return host_file.image_of(path, asked.kernel, image.arch) if path.is_absolute() else None

    def _waits(self, asked: _CodeQuestion) -> bool:
        data = ProcessLog(self._folder / asked.process, 0).read_file(asked.image, MAX_IMAGE)
        return images.waits(images.choose(data, asked.arch, asked.kernel), asked.kernel)

    def _globals(self, asked: _CodeQuestion) -> Answer:
        process = ProcessLog(self._folder / asked.process, 0)
        data = process.read_file(asked.image, MAX_IMAGE)
        if is_code_object(data):
            return amdgpu.globals_answer(data, asked.kernel or None)
        return {key.globals: images.variables(data, asked.arch, asked.kernel or None)}
