"""Arguments before what is made of them: the one traversal, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from kerncap.sanitizer.symbolic.node import Expr


def postorder(
    roots: Iterable[Expr], done: Container[Expr], skip: Callable[[Expr], bool] | None = None
) -> Iterator[Expr]:
    """Every node that is not in ``done``, after its arguments.

    The caller puts each node into ``done`` before it asks for the next. Nodes for which ``skip`` holds
    are left out, with all below them.
    """
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done or (skip is not None and skip(node)):
                stack.pop()
                continue
            missing = [a for a in node.args if a not in done and not (skip is not None and skip(a))]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            yield node


def nodes_of(roots: Iterable[Expr]) -> list[Expr]:
    """Every node under the roots once, arguments first."""
    seen: dict[Expr, None] = {}
    for node in postorder(roots, seen):
        seen[node] = None
    return list(seen)
