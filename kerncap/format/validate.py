"""What a manifest must hold beyond the types of `schema`: the rules that span several objects.

The writer applies the same rules before it seals, so nothing is written that can't be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.format import schema
from kerncap.format.allowed_names import CHUNKS_PATHS, INDEX_PATH, file_below_file, listed_problem
from kerncap.format.json_position import Step
from kerncap.format.number_limits import (
    MAX_VALUE_DEPTH,
    MAX_VALUES,
    fields_problem,
    launch_problem,
    shape_problem,
)
from kerncap.format.size_limits import MAX_CHUNKS_BYTES, MAX_FILE_BYTES, MAX_INDEX_BYTES, MAX_REGIONS_BYTES
from kerncap.format.stored_files import path_problem
from kerncap.format.textures import region_problem, texture_problem

ZERO_PAGE = 2 << 20  # bytes: what devices map at once
ADDRESS_LIMIT = 1 << 63

Steps = tuple[Step, ...]


class ManifestProblem(Exception):
    """A rule that is broken: where (steps from the root of the manifest) and why."""

    def __init__(self, steps: Steps, message: str) -> None:
        super().__init__(message)
        self.steps = steps
        self.message = message


def validate(manifest: schema.Manifest) -> None:
    """Raise ManifestProblem for the first rule that ``manifest`` breaks."""
    if manifest.version.major != schema.FORMAT_MAJOR:
        raise ManifestProblem(("version", "major"), version_message(manifest.version.major))
    _regions(manifest)
    _zeros(manifest)
    for number, view in enumerate(manifest.views):
        _view(view, manifest.regions, ("views", number))
    left = MAX_VALUES
    for steps, value in _values(manifest):
        left = _value(value, len(manifest.views), steps, 1, left)
    if manifest.autotune is not None:
        chosen, count = manifest.autotune.chosen, len(manifest.autotune.configs)
        if chosen is not None and chosen >= count:
            raise ManifestProblem(("autotune", "chosen"), f"configuration {chosen} of only {count}")
    _launch(manifest.launch)
    _textures(manifest)
    _ranks(manifest)
    _files(manifest)
    _build(manifest.source)


def version_message(major: object) -> str:
    known = schema.FORMAT_MAJOR
    return f"format version {major} is not known; this kerncap reads version {known}: try a newer kerncap"


def stored_files(manifest: schema.Manifest) -> Iterator[tuple[Steps, schema.StoredFile]]:
    """Every file that the manifest lists, with its place in the manifest."""
    yield ("memory", "index"), manifest.memory.index
    yield ("memory", "chunks"), manifest.memory.chunks
    for number, more in enumerate(manifest.memory.more_chunks):
        yield ("memory", "more_chunks", number), more
    for number, code in enumerate(manifest.code):
        yield ("code", number, "file"), code.file
    if manifest.source is not None:
        yield ("source", "file"), manifest.source.file
        for number, original in enumerate(manifest.source.originals):
            yield ("source", "originals", number), original
    for number, extra in enumerate(manifest.files):
        yield ("files", number), extra


def view_bounds(view: schema.View) -> tuple[int, int] | None:
    """First and one-past-last byte of the region that the view touches; None if it is empty."""
    if 0 in view.shape:
        return None
    reach = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
    first = view.offset + sum(r for r in reach if r < 0) * view.itemsize
    last = view.offset + sum(r for r in reach if r > 0) * view.itemsize
    return first, last + view.itemsize


def _regions(manifest: schema.Manifest) -> None:
    if manifest.closure.not_held and manifest.regions:
        raise ManifestProblem(("closure", "not_held"), "regions of a launch that can't be held")
    total = 0
    for number, region in enumerate(manifest.regions):
        total += region.size
        problem = region_problem(region)
        if problem is not None:
            raise ManifestProblem(("regions", number, "array"), problem)
        if region.base + region.size > ADDRESS_LIMIT:
            raise ManifestProblem(("regions", number, "size"), f"region {number} ends beyond address 2^63")
        if total > MAX_REGIONS_BYTES:
            message = f"regions add up to more than {MAX_REGIONS_BYTES} bytes"
            raise ManifestProblem(("regions", number, "size"), message)


def _zeros(manifest: schema.Manifest) -> None:
    """Ranges of zeros are whole pages, and share none with a region or each other."""
    spans = [(r.base, r.base + r.size, False) for r in manifest.regions if r.size]
    for number, zero in enumerate(manifest.zeros):
        steps, end = ("zeros", number), zero.base + zero.size
        if zero.base % ZERO_PAGE or zero.size % ZERO_PAGE or not zero.size or end > ADDRESS_LIMIT:
            raise ManifestProblem(steps, f"zeros of {zero.size} bytes at {zero.base:#x} are not whole pages")
        spans.append((zero.base, end, True))
    if sum(zero.size for zero in manifest.zeros) > MAX_REGIONS_BYTES:
        raise ManifestProblem(("zeros",), f"zeros add up to more than {MAX_REGIONS_BYTES} bytes")
    reached = zeros_end = 0
    for first, end, is_zeros in sorted(spans):
        if first < (reached if is_zeros else zeros_end):
            raise ManifestProblem(("zeros",), f"zeros at {first:#x} share a page with other memory")
        reached = max(reached, end)
        zeros_end = max(zeros_end, end) if is_zeros else zeros_end


def _view(view: schema.View, regions: tuple[schema.Region, ...], steps: Steps) -> None:
    if view.region >= len(regions):
        raise ManifestProblem((*steps, "region"), f"region {view.region} of only {len(regions)}")
    if len(view.shape) != len(view.strides):
        message = f"{len(view.strides)} strides for {len(view.shape)} dimensions"
        raise ManifestProblem((*steps, "strides"), message)
    problem = shape_problem(view.shape, view.itemsize)
    if problem is not None:
        raise ManifestProblem((*steps, "shape"), problem)
    size = regions[view.region].size
    bounds = view_bounds(view)
    if bounds is None:
        if view.offset > size:
            raise ManifestProblem((*steps, "offset"), f"offset {view.offset} in a region of {size} bytes")
    elif bounds[0] < 0 or bounds[1] > size:
        message = f"view reaches bytes {bounds[0]} to {bounds[1]} of region {view.region}, which has {size}"
        raise ManifestProblem((*steps, "offset"), message)
    if view.storage is not None:
        _storage(view.storage, bounds, size, view.region, (*steps, "storage"))


def _storage(
    storage: tuple[int, int], bounds: tuple[int, int] | None, size: int, region: int, steps: Steps
) -> None:
    first, end = storage[0], sum(storage)
    if end > size:
        message = f"storage of bytes {first} to {end} of region {region}, which has {size}"
        raise ManifestProblem(steps, message)
    if bounds is not None and not first <= bounds[0] <= bounds[1] <= end:
        message = f"view reaches bytes {bounds[0]} to {bounds[1]}, its storage has only {first} to {end}"
        raise ManifestProblem(steps, message)


def _launch(launch: schema.Launch) -> None:
    problem = launch_problem(launch)
    if problem is not None:
        raise ManifestProblem(("launch", problem[0]), problem[1])
    if launch.dispatch is not None:
        _dispatch(launch, launch.dispatch)
    if launch.mode == "native":
        for name in ("block", "parameters"):
            if getattr(launch, name) is None:
                raise ManifestProblem(("launch", "mode"), f"a native launch without {name}")
    if launch.parameters is None:
        return
    end, size = 0, len(launch.parameters.bytes) // 2
    for number, (offset, length) in enumerate(launch.parameters.layout or ()):
        if offset < end or offset + length > size:
            message = f"parameter {number} at bytes {offset} to {offset + length}; {end} to {size} are left"
            raise ManifestProblem(("launch", "parameters", "layout", number), message)
        end = offset + length


def _dispatch(launch: schema.Launch, dispatch: schema.Dispatch) -> None:
    """Its work-items are those of the grid, the last workgroup of a dimension full or not."""
    if launch.block is None or 0 in launch.block:
        raise ManifestProblem(("launch", "dispatch"), "a dispatch without the size of its workgroups")
    for axis, (items, size, groups) in enumerate(
        zip(dispatch.work_items, launch.block, launch.grid, strict=True)
    ):
        if -(-items // size) != groups:
            message = f"{items} work-items in workgroups of {size} are not the {groups} of the grid"
            raise ManifestProblem(("launch", "dispatch", "work_items", axis), message)


def _textures(manifest: schema.Manifest) -> None:
    seen: set[tuple[str, int]] = set()
    for number, texture in enumerate(manifest.launch.textures):
        steps: Steps = ("launch", "textures", number)
        if manifest.device.kind != "cuda" or manifest.launch.mode != "native":
            raise ManifestProblem(steps, "only a native launch of CUDA has textures")
        if (texture.kind, texture.handle) in seen:
            raise ManifestProblem((*steps, "handle"), f"{texture.kind} {texture.handle} is listed twice")
        seen.add((texture.kind, texture.handle))
        problem = texture_problem(texture, manifest.regions)
        if problem is not None:
            raise ManifestProblem((*steps, problem[0]), problem[1])


def _ranks(manifest: schema.Manifest) -> None:
    """Which rank this is, and whose its windows are; what the others kept is not known here."""
    collective = manifest.collective
    if collective is not None and collective.rank >= collective.ranks:
        message = f"rank {collective.rank} of only {collective.ranks}"
        raise ManifestProblem(("collective", "rank"), message)
    for number, region in enumerate(manifest.regions):
        owner = region.owner
        if owner is None:
            continue
        steps: Steps = ("regions", number, "owner")
        if collective is None or region.kind != "device":
            raise ManifestProblem(steps, "only device memory of a collective launch has an owner")
        if owner.rank >= collective.ranks or owner.rank == collective.rank:
            message = f"rank {owner.rank} is not another one of the {collective.ranks}"
            raise ManifestProblem((*steps, "rank"), message)
        if owner.base + region.size > ADDRESS_LIMIT:
            raise ManifestProblem((*steps, "base"), "it ends beyond address 2^63 there")


def _build(source: schema.Source | None) -> None:
    """What a build of the source names is in the reproducer."""
    if source is None or source.build is None:
        return
    listed = {source.file.path, *(file.path for file in source.originals)}
    steps: Steps = ("source", "build")
    if source.build.unit not in listed:
        raise ManifestProblem((*steps, "unit"), f"{source.build.unit!r} is not a file of the source")
    for name, path in source.build.headers.items():
        if path not in listed:
            raise ManifestProblem((*steps, "headers", name), f"{path!r} is not a file of the source")
    for number, folder in enumerate(source.build.include_dirs):
        problem = path_problem(folder.stored) if folder.stored is not None else None
        if problem:
            raise ManifestProblem((*steps, "include_dirs", number, "stored"), problem)


def _values(manifest: schema.Manifest) -> Iterator[tuple[Steps, schema.Value]]:
    for number, argument in enumerate(manifest.arguments):
        yield ("arguments", number, "value"), argument.value
    yield from _mapping(manifest.launch.options, ("launch", "options"))
    yield from _mapping(manifest.compiled, ("compiled",))
    if manifest.launch.grid_source is not None:
        yield from _mapping(manifest.launch.grid_source.bindings, ("launch", "grid_source", "bindings"))
    for number, config in enumerate(manifest.autotune.configs if manifest.autotune else ()):
        steps: Steps = ("autotune", "configs", number)
        yield from _mapping(config.kwargs, (*steps, "kwargs"))
        yield from _mapping(config.options, (*steps, "options"))
        if config.pre_hook is not None:
            yield from _mapping(config.pre_hook.bindings, (*steps, "pre_hook", "bindings"))


def _mapping(values: dict[str, schema.Value], steps: Steps) -> Iterator[tuple[Steps, schema.Value]]:
    for name, value in values.items():
        yield (*steps, name), value


def _value(value: schema.Value, views: int, steps: Steps, depth: int, left: int) -> int:
    """Check a value and those in it; ``left``: how many values there may be, and then how many more."""
    left -= 1
    if left < 0:
        raise ManifestProblem(steps, f"more than {MAX_VALUES} values")
    if depth > MAX_VALUE_DEPTH:
        raise ManifestProblem(steps, f"values nested deeper than {MAX_VALUE_DEPTH}")
    if isinstance(value, schema.SequenceValue):
        if value.fields is not None and len(value.fields) != len(value.items):
            message = f"{len(value.fields)} field names for {len(value.items)} items"
            raise ManifestProblem((*steps, "fields"), message)
        problem = fields_problem(value)
        if problem is not None:
            raise ManifestProblem((*steps, problem[0]), problem[1])
        for number, item in enumerate(value.items):
            left = _value(item, views, (*steps, "items", number), depth + 1, left)
    elif isinstance(value, schema.FloatValue):
        try:
            float.fromhex(value.value)
        except (OverflowError, ValueError):
            raise ManifestProblem((*steps, "value"), "not a 64-bit float") from None
    elif isinstance(value, schema.TensorValue | schema.DescriptorValue):
        if value.view >= views:
            raise ManifestProblem((*steps, "view"), f"view {value.view} of only {views}")
        if isinstance(value, schema.DescriptorValue):
            ranks = {len(value.shape), len(value.strides), len(value.block_shape)}
            if len(ranks) != 1:
                raise ManifestProblem((*steps, "block_shape"), "a descriptor's shapes differ in rank")
            for name in ("shape", "block_shape"):
                too_large = shape_problem(getattr(value, name))
                if too_large is not None:
                    raise ManifestProblem((*steps, name), too_large)
    return left


def _files(manifest: schema.Manifest) -> None:
    memory = manifest.memory
    expected: list[tuple[Steps, schema.StoredFile, str, int]] = [
        (("memory", "index"), memory.index, INDEX_PATH, MAX_INDEX_BYTES),
        (("memory", "chunks"), memory.chunks, CHUNKS_PATHS[0], MAX_CHUNKS_BYTES),
    ]
    left = MAX_CHUNKS_BYTES - memory.chunks.size
    for number, (file, path) in enumerate(zip(memory.more_chunks, CHUNKS_PATHS[1:], strict=False)):
        expected.append((("memory", "more_chunks", number), file, path, left))
        left -= file.size
    for steps, file, path, limit in expected:
        problem = path_problem(file.path)
        if problem or file.path != path:
            raise ManifestProblem((*steps, "path"), problem or f"{file.path!r}; expected {path!r}")
        if file.size > limit:
            message = f"{file.size} bytes; at most {limit} are allowed"
            raise ManifestProblem((*steps, "size"), message)
    if memory.more_chunks and memory.digest_of is None:
        raise ManifestProblem(("memory", "more_chunks"), "files of chunks whose digests are not of payloads")
    known: dict[str, schema.StoredFile] = {}
    for steps, file in stored_files(manifest):
        problem = listed_problem(file.path, str(steps[0]))
        if problem is None and known.setdefault(file.path, file) != file:
            problem = f"{file.path!r} is listed twice with different content"
        if problem:
            raise ManifestProblem((*steps, "path"), problem)
        if steps[0] != "memory" and file.size > MAX_FILE_BYTES:
            message = f"{file.size} bytes; at most {MAX_FILE_BYTES} are allowed"
            raise ManifestProblem((*steps, "size"), message)
    below = file_below_file(known)
    if below is not None:
        steps = next(steps for steps, file in stored_files(manifest) if file.path == below)
        raise ManifestProblem((*steps, "path"), f"{below!r} is below another file")
