"""A range as one HTML page: its launches, the bytes that flow between them, what fusion would save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kerncap.log import size
from kerncap.report.html.filled_page import filled
from kerncap.report.html.material import plain

MAX_DRAWN = 200
_ROW, _TOP, _NODE_X = 30.0, 20.0, 330.0
_WIDEST = 5.0


@dataclass(frozen=True)
class Node:
    """A launch at a height, with the name that stands next to it."""

    number: int
    y: float
    name: str
    title: str


@dataclass(frozen=True)
class Edge:
    """Bytes that flow from one launch to another, as an arc on the right; ``x`` is its outermost place."""

    path: str
    width: float
    x: float
    y: float
    text: str
    title: str
    open: bool  # whether the two launches are not known to be ordered


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    x: float
    height: float


def render(facts: dict[str, Any], limits: dict[str, Any] | None, title: str) -> bytes:
    """The page, of the documents of ``inspect`` and, if there is one, ``replay --limits``."""
    left_out = []
    if len(facts["launches"]) > MAX_DRAWN:
        left_out.append(f"the graph: {len(facts['launches']):,} launches, and at most {MAX_DRAWN} are drawn")
    return filled(
        "range.html",
        title=plain(title, 120),
        facts=facts,
        command=plain(" ".join(facts["command"])),
        graph=None if left_out else graph(facts),
        fusions=[] if limits is None else [limits["whole"], *limits["pairs"]],
        several_streams=len({one["stream"] for one in facts["launches"]}) > 1,
        notes=[plain(note) for note in facts["notes"]],
        left_out=left_out,
        size=size,
    )


def graph(facts: dict[str, Any]) -> Graph:
    """The launches below each other, and what flows between them."""
    nodes = tuple(
        Node(number, _TOP + _ROW * number, plain(one["kernel"], 40), _title(one))
        for number, one in enumerate(facts["launches"])
    )
    most = max((flow["bytes"] for flow in facts["flows"]), default=1) or 1
    longest = max((flow["to"] - flow["from"] for flow in facts["flows"]), default=1)
    edges = []
    for flow in sorted(facts["flows"], key=lambda one: one["from"] - one["to"]):
        start, end = (nodes[flow[key]].y for key in ("from", "to"))
        reach = round(40 + 300 * (flow["to"] - flow["from"]) / max(longest, 4), 1)
        x = _NODE_X + reach
        path = f"M{_NODE_X} {start}C{x} {start} {x} {end} {_NODE_X} {end}"
        names = [plain(facts["launches"][flow[key]]["kernel"], 80) for key in ("from", "to")]
        title = f"{flow['from']} to {flow['to']}: {flow['bytes']:,} bytes ({names[0]} to {names[1]})"
        title += {True: "", False: "; not ordered", None: "; order not known"}[flow["ordered"]]
        width = round(1 + (_WIDEST - 1) * flow["bytes"] / most, 2)
        # An arc of Bézier's reaches three quarters of the way to its handles.
        edges.append(
            Edge(
                path,
                width,
                _NODE_X + 0.75 * reach + 6,
                (start + end) / 2,
                size(flow["bytes"]),
                title,
                not flow["ordered"],
            )  # fmt: skip
        )
    return Graph(nodes, tuple(edges), _NODE_X, _TOP + _ROW * len(nodes))


def _title(launch: dict[str, Any]) -> str:
    written, inside, gone = (f"{launch[key]:,}" for key in ("written", "read_inside", "overwritten"))
    return (
        f"{plain(launch['kernel'], 200)}: writes {written} bytes, of which {inside} are read and {gone} "
        f"overwritten in the range; reads {launch['from_outside']:,} from outside"
    )
