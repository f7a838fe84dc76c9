"""What only the compiled kernel knows: IR stages, metadata, specialisation."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from . import encoded_values, record_writer, triton_generations
from .contract import key
from .session import Session

STAGE_SUFFIXES = ("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco", "spv", "json")
_FACTS = ("n_regs", "n_spills", "n_max_threads")


def describe(session: Session, result: Any, name: str, names: List[str]) -> Dict[str, Any]:
    """The COMPLETE fields ``code``, ``compiled``, ``signature`` and ``divisibility`` of a JIT launch."""
    kernel = triton_generations.compiled_kernel(result)
    if kernel is None:
        return {}
    stages = dict(getattr(kernel, "asm", None) or {})
    metadata = _metadata(kernel)
    facts = {fact: _fact(value) for fact, value in metadata.items()}
    for fact in _FACTS:
        value = getattr(kernel, fact, None)
        if isinstance(value, int):
            facts[fact] = encoded_values.encode(value)
    source = getattr(kernel, "src", None)
    digest = str(getattr(kernel, "hash", "") or "")
    return {
        key.code: store_stages(session, name, digest, list(stages.items()), metadata),
        key.compiled: facts,
        key.signature: triton_generations.signature(source, names),
        key.divisibility: triton_generations.divisibility(source, names),
    }


def store_stages(
    session: Session,
    name: str,
    digest: str,
    stages: List[Tuple[str, Any]],
    metadata: Optional[Dict[str, Any]] = None,
) -> List[Dict[str, str]]:
    """Write every stage once per compiled kernel; returns the COMPLETE record's ``code``."""
    contents = []
    for stage, data in stages:
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogateescape")
        if isinstance(data, (bytes, bytearray)):
            contents.append((str(stage), bytes(data)))
    if metadata:
        contents.append(("metadata", json.dumps(metadata, default=str, sort_keys=True, indent=1).encode()))
    if not contents:
        return []
    if not digest:
        digest = hashlib.sha256(b"".join(data for _, data in contents)).hexdigest()
    stem = f"{_plain(name)[:80]}-{_plain(digest)[:16]}"
    written = session.resources.setdefault("code", {})
    if stem not in written:
        for stage, data in contents:
            record_writer.write_file(session.path(f"code/{stem}.{_plain(stage)}"), data)
        written[stem] = [
            {key.stage: stage, key.file: f"code/{stem}.{_plain(stage)}"} for stage, _ in contents
        ]
    return list(written[stem])


def stages_in_folder(folder: str) -> List[Tuple[str, bytes]]:
    """The stages that Triton's cache keeps of one compiled kernel (a folder per hash)."""
    found = []
    for name in sorted(os.listdir(folder)):
        stage = name.rpartition(".")[2]
        if stage in STAGE_SUFFIXES and not name.startswith("__grp__"):
            with open(os.path.join(folder, name), "rb") as file:
                found.append(("metadata" if stage == "json" else stage, file.read()))
    return found


def facts_of_metadata(stages: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """The facts in a stored metadata stage."""
    for stage, data in stages:
        if stage == "metadata":
            metadata = json.loads(data)
            return {str(fact): _fact(value) for fact, value in metadata.items()}
    return {}


def _metadata(kernel: Any) -> Dict[str, Any]:
    metadata: Any = getattr(kernel, "metadata", None)
    if hasattr(metadata, "_asdict"):
        return dict(metadata._asdict())
    return dict(metadata) if isinstance(metadata, dict) else {}


def _fact(value: Any) -> Dict[str, Any]:
    encoded = encoded_values.encode(value)
    return {"kind": "str", "value": encoded["repr"]} if encoded["kind"] == "opaque" else encoded


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_+=@-]", "_", text) or "_"
