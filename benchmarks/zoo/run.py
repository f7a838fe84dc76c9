"""Makes calls of one of this folder's files, in the program that the sanitizer watches or without it.

python run.py fla_calls.py JOURNAL [CALL...]: to JOURNAL goes a line of JSON when a call begins, and one when
it ended. With no CALL their names are printed; JOURNAL is then not used.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any


def make(name: str, function: Any) -> dict[str, Any]:
    """Forward and backward; what happened."""
    from call import backward

    def forward_and_backward() -> None:
        backward(function())

    # In the stack of each launch this frame has the call's name.
    named = types.FunctionType(
        forward_and_backward.__code__.replace(co_name=name),
        globals(),
        name,
        None,
        forward_and_backward.__closure__,
    )
    started = time.perf_counter()
    outcome, error = "made", ""
    try:
        named()
    except (ImportError, AttributeError) as raised:
        outcome, error = "absent", f"{type(raised).__name__}: {raised}"
    except Exception as raised:
        outcome, error = "raised", f"{type(raised).__name__}: {raised}"
    return {"outcome": outcome, "error": error[:400], "seconds": time.perf_counter() - started}


def main() -> int:
    file, journal, *chosen = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parent))
    importlib.import_module(Path(file).stem)
    import torch
    import triton  # noqa: F401 -- so that the first call is not billed for it
    from call import CALLS

    if not chosen:
        print("\n".join(CALLS))
        return 0
    warnings.simplefilter("ignore")
    with open(journal, "a", encoding="utf-8") as out:
        for name in chosen:
            print(json.dumps({"call": name}), file=out, flush=True)
            torch.manual_seed(0)
            print(json.dumps({"call": name, **make(name, CALLS[name])}), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
