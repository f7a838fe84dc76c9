"""A packed reproducer for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kerncap import log
from kerncap.format.private import KEPT, Finding
from kerncap.report.documents.sharing import Packed

_KINDS = {
    "user": ("user name", "user names"), "host": ("host name", "host names"),
    "secret": ("secret", "secrets"), "variable": ("variable", "variables"),
}  # fmt: skip
_SHOWN = 12
_UNVIEWED_SHOWN = 8


def render_plan(packed: Packed, show_private: bool = False) -> str:
    """What goes in, before it is written: its size, and what no argument speaks of."""
    lines = [f"{packed.path}: {log.size(packed.size)}"]
    for one in packed.files:
        lines.append(f"  {log.size(one.stored_bytes):>9}  {log.one_line(one.name)}")
    if packed.unviewed:
        total = log.size(sum(one.size for one in packed.unviewed))
        lines.append(f"{total} of memory outside the arguments' views:")
        for region in packed.unviewed[:_UNVIEWED_SHOWN]:
            name = f" {log.one_line(region.name)}" if region.name else ""
            reason = f", {log.one_line(region.reason)}" if region.reason else ""
            lines.append(f"  region {region.region}: {log.size(region.size)} {region.kind}{name}{reason}")
        if len(packed.unviewed) > _UNVIEWED_SHOWN:
            lines.append(f"  and {len(packed.unviewed) - _UNVIEWED_SHOWN} more (--json lists all)")
    lines += summary(packed.findings)
    if show_private:
        lines += [f"  {log.one_line(one)}" for one in packed.findings]
    elif packed.findings:
        lines.append("  --show-private lists them")
    if packed.is_large:
        lines.append(
            "more than the 25 MB that bug trackers take: capture with --memory args (only the arguments' "
            "memory), a smaller input, or --no-values if no value matters; else give a link to it"
        )
    return "\n".join(lines)


def summary(findings: Sequence[Finding]) -> list[str]:
    """What became of what was private, by kind."""
    lines = []
    for word, chosen in (
        ("replaced", [one for one in findings if one.became != KEPT]),
        ("KEPT, readable for the recipient", [one for one in findings if one.became == KEPT]),
    ):
        counts = Counter(one.kind for one in chosen)
        told = ", ".join(f"{count} {_KINDS[kind][count > 1]}" for kind, count in sorted(counts.items()))
        if told:
            lines.append(f"private, {word}: {told}")
    return lines


def listing(findings: Sequence[Finding]) -> list[str]:
    """One line for each, the first dozen of them."""
    lines = [log.one_line(one) for one in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        lines.append(f"and {len(findings) - _SHOWN} more (--json lists all)")
    return lines
