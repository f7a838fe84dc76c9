"""Normal forms: what is one node, and what falls away."""

from __future__ import annotations

import gc
import itertools
import threading

import pytest

from kerncap.sanitizer.symbolic import node
from kerncap.sanitizer.symbolic.expr import (
    FALSE,
    TRUE,
    Buffer,
    Expr,
    Variable,
    add,
    bit_and,
    bit_or,
    bit_xor,
    congruence,
    conjuncts,
    const,
    disjuncts,
    div_floor,
    div_trunc,
    eq,
    evaluate,
    ge,
    gt,
    interval,
    ite,
    land,
    le,
    leaves,
    linear,
    lnot,
    lor,
    lt,
    maximum,
    minimum,
    mod_floor,
    mul,
    ne,
    neg,
    read,
    rem_trunc,
    render,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    sub,
    substitute,
    unknown,
    unsigned,
    var,
    wrap,
    wraps_of,
)

p = Variable("p", "program", 0, 1000)
q = Variable("q", "program", 0, 7)
i = Variable("i", "lane", 0, 63)
k = Variable("k", "loop", -50, 50)
P, Q, I, K = var(p), var(q), var(i), var(k)  # noqa: E741 - as in the kernels: P the program, I its lane


def c(number: int) -> Expr:
    return const(number)


def test_operators_make_the_same_nodes() -> None:
    assert P + 3 is add(P, c(3)) and 3 + P is P + 3 and P - I is sub(P, I) and 3 - P is sub(c(3), P)
    assert P * K is mul(P, K) and 2 * P is mul(c(2), P) and -P is neg(P)
    assert P // 3 is div_floor(P, c(3)) and P % 3 is mod_floor(P, c(3)) and 3 % K is mod_floor(c(3), K)
    assert 9 // K is div_floor(c(9), K) and (P < I) is lt(P, I) and (P <= 3) is le(P, c(3))
    assert (P > 3) is gt(P, c(3)) and (P >= I) is ge(P, I) and (P > 2) is gt(P, c(2))
    a, b = P < 5, K > I
    assert (a & b) is land(a, b) and (a | b) is lor(a, b) and ~a is lnot(a)
    assert eq(P, 3) is eq(P, c(3)) and ne(P, 3) is ne(P, c(3))
    with pytest.raises(TypeError, match="no truth value"):
        assert P < I < K


def test_equal_sums_are_one_node() -> None:
    a = add(mul(P, c(64)), I, c(3))
    b = add(c(1), I, mul(c(32), add(P, P)), c(2))
    assert a is b
    assert sub(a, b) is c(0)
    assert add(a, neg(b), K) is K
    assert mul(add(P, I), c(4)) is add(mul(P, c(4)), mul(c(4), I))
    assert mul(add(P, K), sub(K, I)) is mul(sub(K, I), add(K, P))
    form = linear(a)
    assert form is not None
    assert form.constant == 3
    assert dict(form.terms) == {P: 64, I: 1}
    assert linear(TRUE) is None


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (div_floor(add(mul(P, c(64)), I), c(64)), P),
        (mod_floor(add(mul(P, c(64)), I), c(64)), I),
        (div_floor(add(mul(P, c(128)), I), c(256)), div_floor(P, c(2))),
        (mod_floor(add(mul(P, c(128)), I, c(64)), c(256)), add(mul(mod_floor(P, c(2)), c(128)), I, c(64))),
        (div_floor(div_floor(P, c(3)), c(5)), div_floor(P, c(15))),
        (mod_floor(mod_floor(K, c(24)), c(8)), mod_floor(K, c(8))),
        (add(mul(div_floor(K, c(8)), c(8)), mod_floor(K, c(8))), K),
        (sub(K, mul(div_floor(K, c(8)), c(8))), mod_floor(K, c(8))),
        (mod_floor(add(mul(K, c(16)), c(5)), c(4)), c(1)),
        (div_trunc(P, c(-4)), neg(div_floor(P, c(4)))),
        (rem_trunc(P, c(-4)), mod_floor(P, c(4))),
        (rem_trunc(sub(I, c(63)), c(5)), neg(mod_floor(sub(c(63), I), c(5)))),
        (minimum(P, c(5000)), P),
        (maximum(add(K, c(1)), K), add(K, c(1))),
        (minimum(I, minimum(K, I)), minimum(K, I)),
        (ite(lt(I, K), I, K), minimum(I, K)),
        (ite(lt(I, K), K, I), maximum(I, K)),
        (ite(lnot(lt(I, K)), I, c(7)), ite(ge(I, K), I, c(7))),
        (wrap(mul(P, c(1 << 20)), 32), mul(P, c(1 << 20))),
        (unsigned(wrap(mul(P, c(1 << 22)), 32), 32), mul(P, c(1 << 22))),
        (bit_and(K, c(15), 32), mod_floor(K, c(16))),
        (bit_and(K, c(-16), 32), sub(K, mod_floor(K, c(16)))),
        (bit_or(mul(P, c(64)), I, 32), add(mul(P, c(64)), I)),
        (bit_xor(I, mul(P, c(64)), 32), add(mul(P, c(64)), I)),
        (shift_left(P, c(6), 32), mul(P, c(64))),
        (shift_right_arithmetic(K, c(2), 32), div_floor(K, c(4))),
        (shift_right_logical(c(-1), c(28), 32), c(15)),
    ],
)
def test_arithmetic_becomes_what_it_is(e: Expr, expected: Expr) -> None:
    assert e is expected, (e, expected)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (lt(I, K), gt(K, I)),
        (lt(mul(I, c(4)), c(10)), le(I, c(2))),
        (ge(mul(I, c(-4)), c(-10)), le(I, c(2))),
        (eq(mul(K, c(4)), c(10)), FALSE),
        (eq(add(mul(P, c(4)), mul(Q, c(8))), c(2)), FALSE),
        (ne(I, c(0)), ge(I, c(1))),
        (eq(I, c(63)), ge(I, c(63))),
        (le(I, c(63)), TRUE),
        (lnot(land(lt(I, K), eq(P, c(3)))), lor(ge(I, K), ne(P, c(3)))),
        (land(lt(I, c(9)), lt(I, c(5))), lt(I, c(5))),
        (land(lt(I, c(5)), ge(I, c(5))), FALSE),
        (lor(lt(I, c(5)), ge(I, c(3))), TRUE),
        (land(le(I, c(5)), ge(I, c(5))), eq(I, c(5))),
        (land(lt(I, K), lor(lt(I, K), eq(P, c(1)))), lt(I, K)),
        (land(lt(I, K), lor(ge(I, K), eq(P, c(1)))), land(lt(I, K), eq(P, c(1)))),
        (eq(ite(lt(I, K), c(1), c(0)), c(1)), lt(I, K)),
        (ne(ite(lt(I, K), c(1), c(0)), c(0)), lt(I, K)),
        (eq(lt(I, K), TRUE), lt(I, K)),
        (ne(lt(I, K), FALSE), lt(I, K)),
        (eq(lt(I, K), ge(I, K)), FALSE),
    ],
)
def test_conditions_become_what_they_are(e: Expr, expected: Expr) -> None:
    assert e is expected, (e, expected)


def test_a_wrap_stays_until_it_changes_nothing() -> None:
    leaving = wrap(mul(P, c(1 << 22)), 32)
    assert leaving.kind == "wrap"
    assert interval(leaving) == (-(2**31), 2**31 - 1 - ((1 << 22) - 1))
    assert wraps_of(add(leaving, I)) == [leaving]
    condition = leaves(leaving)
    assert not evaluate([condition], {p: 511})[0]
    assert evaluate([condition], {p: 512})[0]
    assert wraps_of(wrap(I, 32)) == []
    # Read as unsigned, the pattern is still right up to 2**32; only from there on something is lost.
    twice = unsigned(wrap(mul(P, c(1 << 23)), 32), 32)
    (place,) = wraps_of(twice)
    assert evaluate([leaves(place)], {p: 511})[0].tolist() is False
    assert evaluate([leaves(place)], {p: 512})[0].tolist() is True


def test_shifts_by_a_variable_leave_where_they_lose_bits() -> None:
    amount = Variable("s", "free", 0, 7)
    shifted = shift_left(wrap(K, 8), var(amount), 8)
    (place,) = wraps_of(shifted)
    for number, by in itertools.product((-50, -8, -1, 0, 3, 50), range(8)):
        lost = not -128 <= number << by <= 127
        assert bool(evaluate([leaves(place)], {k: number, amount: by})[0]) is lost


def test_division_by_what_may_be_zero_says_nothing() -> None:
    assert interval(div_floor(I, Q)) == (None, None)
    assert interval(div_floor(I, add(Q, c(1)))) == (0, 63)
    assert div_trunc(I, c(0)).unknown_reasons == {"division by zero"}
    assert shift_left(I, c(40), 32).unknown_reasons
    assert mod_floor(I, I).kind == "mod"


def test_congruences() -> None:
    assert congruence(add(mul(P, c(64)), mul(K, c(16)), c(5))) == (16, 5)
    assert congruence(c(7)) == (0, 7)
    assert congruence(I) == (1, 0)
    assert congruence(wrap(mul(P, c(1 << 22)), 32))[0] == 1 << 22
    assert interval(mul(div_floor(K, c(3)), c(8))) == (-136, 128)


def test_unknowns_and_reads_know_what_they_are_made_of() -> None:
    r = read(Buffer(2, 32), mul(P, c(4)))
    u = unknown("an external call", ("f", 3), (r,), 0, 9)
    total = add(u, I)
    assert total.unknown_reasons == {"an external call"}
    assert total.reads == {r}
    assert total.variables == {p, i}
    assert unknown("an external call", ("f", 3), (r,), 0, 9) is u
    moved = substitute(total, {p: Q})
    assert moved.variables == {q, i}
    assert moved.reads == {read(Buffer(2, 32), mul(Q, c(4)))}
    assert read(Buffer(0, 1), P).sort == "bool"
    assert interval(read(Buffer(0, 8, signed=False), P)) == (0, 255)
    assert u.value is None
    assert c(4).value == 4


def test_connectives_come_apart() -> None:
    parts = conjuncts(land(lt(I, K), eq(P, c(3)), TRUE))
    assert set(parts) == {lt(I, K), eq(P, c(3))}
    assert conjuncts(TRUE) == ()
    assert disjuncts(FALSE) == ()
    assert set(disjuncts(lor(lt(I, K), eq(P, c(3))))) == set(parts)


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="TRUE"):
        bool(lt(I, K))
    with pytest.raises(ValueError, match="empty"):
        Variable("x", "loop", 0, -1)
    with pytest.raises(TypeError, match="ite"):
        ite(lt(I, K), I, TRUE)


def test_text() -> None:
    assert render(add(mul(P, c(64)), I, c(-3))) == "64*p + i - 3"
    assert render(land(lt(I, K), ge(P, c(3)))) in ("(i - k <= -1) and (p >= 3)", "(p >= 3) and (i - k <= -1)")
    assert render(mod_floor(add(P, K), c(7))) == "(p + k) % 7"


def _deep(levels: int) -> Expr:
    e = I
    for level in range(levels):
        e = add(mod_floor(mul(e, c(3)), c(1001 + level)), ite(lt(e, c(level)), K, wrap(mul(e, e), 16)))
    return e


def test_deep_expressions_need_no_recursion() -> None:
    e = _deep(1100)
    shallow = evaluate([e], {i: 5, k: 3})[0]
    assert shallow.shape == ()
    moved = substitute(e, {i: Q})
    assert moved.variables == {q, k}
    assert len(render(e)) < 10_000
    assert wraps_of(e)
    condition = lt(I, c(5))
    for level in range(1100):
        part = gt(mod_floor(I, c(level + 3)), c(1))
        condition = lor(part, condition) if level % 2 else land(part, condition)
    assert lnot(lnot(condition)).sort == "bool"


def test_nodes_die_with_their_last_user() -> None:
    _deep(500)  # of which the constants are kept
    gc.collect()
    before = node.table_size()
    e = _deep(500)
    assert node.table_size() > before + 500
    del e
    gc.collect()
    assert node.table_size() <= before + 50


def test_nodes_of_an_analysis_are_let_go_at_its_end() -> None:
    before = node.table_size()
    with node.forgetting():
        inner = read(Buffer(0, 32), mul(P, c(4)))
        outer = read(Buffer(1, 32), add(inner, K))
        condition = lt(outer, c(77_001))
        with node.forgetting():
            add(outer, c(77_002))
        assert outer.reads == condition.reads == {inner, outer}
        assert lt(outer, c(77_001)) is condition
        del inner, outer
    assert condition.kind == "le"
    assert node.table_size() > before
    del condition
    assert node.table_size() <= before  # without the garbage collector: no cycles


def test_threads_make_the_same_nodes() -> None:
    made: list[list[Expr]] = []

    def make() -> None:
        made.append([mod_floor(add(mul(P, c(7)), mul(K, c(n))), c(1000 + n)) for n in range(300)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a is b for other in made[1:] for a, b in zip(made[0], other, strict=True))
