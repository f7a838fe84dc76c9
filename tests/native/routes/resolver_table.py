"""Which function cuGetProcAddress means by a name, a version and a kind of default stream.

Reads cudaTypedefs.h, whose type names say since when a name has which signature, and writes two C++ headers:
resolver_checks.h has the compiler compare the type of each hooked symbol with the one of its version, and
resolver_rows.h has ROUTES_ROW(symbol, name, version, per_thread) for each.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main(typedefs: str, versions: str, folder: str) -> None:
    known = set(re.findall(r"\bPFN_(cu\w+)\)", Path(typedefs).read_text()))
    newest = max(int(name.split("_v")[-1].split("_")[0]) for name in known)
    checks, table = ["#include <type_traits>", "#include <cudaTypedefs.h>"], []
    rows = re.findall(r"KERNCAP_VERSION\((\w+), (\w+), (\d+)\)|^(#.*)$", Path(versions).read_text(), re.M)
    for symbol, name, version, directive in rows:
        if directive:
            checks.append(directive)
            table.append(directive)
            continue
        stream = re.search(r"_(ptsz|ptds)$", symbol)
        base = "cuGraphInstantiateWithFlags" if symbol == "cuGraphInstantiateWithFlags" else name
        since = {"cuGraphInstantiateWithFlags": "11040"}.get(symbol, version)
        declared = f"{base}_v{since}{stream.group(0) if stream else ''}"
        if declared in known:
            checks.append(
                f'static_assert(std::is_same_v<PFN_{declared}, decltype(&::{symbol})>, "{symbol}");'
            )
        elif int(since) <= newest:
            raise SystemExit(f"cudaTypedefs.h has no {declared}, which is to be {symbol}")
        table.append(f'ROUTES_ROW({symbol}, "{name}", {version}, {1 if stream else 0})')
    Path(folder, "resolver_checks.h").write_text("\n".join(checks) + "\n")
    Path(folder, "resolver_rows.h").write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
