"""Reachable memory as strips: what of each region is zero, data, changed, written, untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.format import WriteSet
from kerncap.format.memory_index import ZERO_ROW
from kerncap.format.validate import view_bounds
from kerncap.log import size
from kerncap.report.html.material import Material, plain
from kerncap.report.inspect_text import owner_text

MAX_REGIONS = 200
MAX_VIEWS = 24  # of one region
MAX_VIEW_ROWS = 4
CELLS = 192
_BYTE_BY_BYTE = 4 << 20  # larger regions are shown by their chunks
_BYTES_IN_ALL = 96 << 20
_MASK_BYTES = 1 << 30  # of a region whose write set is drawn
Shares = npt.NDArray[np.float64]


def regions(material: Material) -> list[dict[str, Any]]:
    """One item for each region, in their order; of very many, those with views and the largest."""
    manifest = material.truth
    views: dict[int, list[tuple[int, int, str]]] = {}
    for number, view in enumerate(manifest.views):
        bounds = view_bounds(view)
        if bounds is not None:
            name = plain(material.manifest["views"][number].get("name") or f"view {number}", 60)
            views.setdefault(view.region, []).append((*bounds, name))
    order = sorted(range(len(manifest.regions)), key=lambda n: (n not in views, -manifest.regions[n].size))
    chosen = sorted(order[:MAX_REGIONS])
    if len(chosen) < len(manifest.regions):
        material.left_out.append(
            f"{len(manifest.regions) - len(chosen):,} of {len(manifest.regions):,} regions (the smallest)"
        )
    write_set = WriteSet.load(material.reproducer)
    budget, found = _BYTES_IN_ALL, []
    for number in chosen:
        item = _facts(material, number, views.get(number, []))
        whole = manifest.regions[number].size <= min(_BYTE_BY_BYTE, budget)
        item |= _by_bytes(material, number) if whole else _by_chunks(material, number)
        budget -= manifest.regions[number].size if whole else 0
        item["access"] = _access(write_set, number, manifest.regions[number].size)
        found.append(item)
    return found


def _facts(material: Material, number: int, views: list[tuple[int, int, str]]) -> dict[str, Any]:
    region, shown = material.truth.regions[number], material.manifest["regions"][number]
    stored = material.facts["stored"]["regions"][number]
    place = "" if region.kind in ("host", "global") else f" {region.device}"
    why = ", ".join(filter(None, (shown.get("name"), shown.get("reason"), owner_text(shown))))
    kept = sorted(views)[:MAX_VIEWS]
    return {
        "number": number, "base": f"{region.base:#x}", "bytes": region.size, "size": size(region.size),
        "kind": f"{region.kind}{place}", "tone": region.kind, "why": plain(why, 160),
        "stored": size(stored["pre_bytes"]), "chunks_changed": stored["chunks_changed"],
        "rows": _rows(kept), "views_left_out": len(views) - len(kept),
    }  # fmt: skip


def _rows(views: list[tuple[int, int, str]]) -> list[list[tuple[int, int, str]]]:
    """Views side by side if they don't meet, else on separate rows; a few rows at most."""
    rows: list[list[tuple[int, int, str]]] = []
    for view in views:
        row = next((row for row in rows if row[-1][1] <= view[0]), None)
        if row is not None:
            row.append(view)
        elif len(rows) < MAX_VIEW_ROWS:
            rows.append([view])
    return rows


def _by_bytes(material: Material, number: int) -> dict[str, Any]:
    length = material.truth.regions[number].size
    before = np.frombuffer(material.reproducer.read("pre", number, 0, length), dtype=np.uint8)
    after = before
    if material.reproducer.chunks_changed(number):
        after = np.frombuffer(material.reproducer.read("post", number, 0, length), dtype=np.uint8)
    data, changed = (before != 0) | (after != 0), before != after
    return {
        "unit": "bytes", "units": length, "data": _shares(data), "changed": _shares(changed),
        "data_units": int(data.sum()), "changed_units": int(changed.sum()),
    }  # fmt: skip


def _by_chunks(material: Material, number: int) -> dict[str, Any]:
    index, length = material.reproducer.index, material.truth.regions[number].size
    count = -(-length // index.chunk_bytes)
    listed = {state: index.stored(state, number) for state in ("pre", "post")}
    # A region of a terabyte has four million chunks: one byte for each is fine.
    data, changed = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for chunks, rows in listed.values():
        data[chunks[rows != ZERO_ROW]] = True
    changed[listed["post"][0]] = True
    return {
        "unit": f"chunks of {size(index.chunk_bytes)}", "units": count,
        "data": _shares(data), "changed": _shares(changed),
        "data_units": int(data.sum()), "changed_units": int(changed.sum()),
    }  # fmt: skip


def _access(write_set: WriteSet | None, number: int, length: int) -> dict[str, list[int]] | None:
    if write_set is None or number not in write_set.regions or not 0 < length <= _MASK_BYTES:
        return None
    found = {}
    for kind in ("written", "also_input", "untouched"):
        mask = write_set.mask(number, kind)
        bits = np.unpackbits(mask, bitorder="little")[:length] if length <= _BYTE_BY_BYTE else mask
        found[kind] = _shares(bits != 0)
    return found


def _shares(flags: npt.NDArray[np.bool_]) -> list[int]:
    """Of each cell, how much is set: 0 to 255; never 0 if anything is."""
    count = len(flags)
    if not count:
        return []
    cells = min(CELLS, count)
    edges = np.array([cell * count // cells for cell in range(cells)], dtype=np.int64)
    sums = np.add.reduceat(flags.astype(np.int64), edges)
    sizes = np.diff(np.append(edges, count))
    share: Shares = sums / sizes
    return [int(value) for value in np.where(sums > 0, np.maximum(1, np.round(share * 255)), 0)]
