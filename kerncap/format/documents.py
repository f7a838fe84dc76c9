"""JSON documents: the one spelling that we write, and a reader that names the byte of an error."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from kerncap.errors import FormatError
from kerncap.format.json_position import Step, byte_offset, path_of
from kerncap.format.stored_files import format_error

# msgspec 0.22 crashes if two threads decode a type for the first time at once.
_decoding = threading.Lock()


def canonical_json(value: Any) -> bytes:
    """The one spelling of a document: sorted keys, one space of indent, UTF-8, a newline at the end.

    Text that came from undecodable bytes (surrogates) is written with ``?`` in their place.
    """
    plain = msgspec.to_builtins(value)
    text = json.dumps(plain, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


def decode_json(data: bytes, where: Path, type_: Any) -> Any:
    """A JSON document as ``type_``; FormatError with the byte of what is wrong."""
    try:
        with _decoding:
            return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError as error:
        message, steps = path_of(str(error))
        raise error_at(data, where, steps, message + _dotted(steps)) from error
    except msgspec.DecodeError as error:
        found = re.search(r"\(byte (\d+)\)", str(error))
        offset = int(found[1]) if found else len(data)
        raise format_error(where, offset, f"not valid JSON: {error}") from error
    except UnicodeDecodeError as error:
        raise format_error(where, 0, f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise format_error(where, 0, "nested too deep") from error


def error_at(data: bytes, where: Path, steps: Iterable[Step], message: str) -> FormatError:
    """A FormatError at the value that ``steps`` lead to."""
    return format_error(where, byte_offset(data, steps), message)


def _dotted(steps: tuple[Step, ...]) -> str:
    return f" ({'.'.join(map(str, steps))})" if steps else ""
