"""Definitions of kernels, found in text as people write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.source.native import definitions as parsing
from kerncap.capture.source.native.definitions import Definition, definitions, matching
from kerncap.format.kernel_names import parse

TEXT = r"""// __global__ void commented(int x) {}
/* __global__ void also(int x) {} */
#define KERNEL(n) __global__ void n##_kernel(float *x)
#define GLOBAL static __global__
#define WHOLE(T) \
  __global__ void whole_##T(T *x, int n) { \
    x[0] = n; }
const char *text = "__global__ void string(int x) { }";
const char *raw = R"(}} __global__ void raw_string(int x) { )";
namespace a::b { inline namespace v1 {
KERNEL(scale) { x[0] = 1; }
GLOBAL void other(float *x) { if (x) { x[0] = '}'; } }
WHOLE(float)
WHOLE(int);
#if FAST
__global__ void branches(int a) {
#else
__global__ void branches(float b) {
#endif
  { }
}
template <typename T, int N = (3 > 2)>
__global__ void
__launch_bounds__(256, 2)
bounded(const T *__restrict__ x, std::pair<int, int> q) noexcept
{ struct S { int a; } s; }
__global__ void declared(int);
extern "C" { __global__ void plain_c(void) {} }
struct W { int x; };
extern "C" __global__ void __cluster_dims__(2, 1, 1) clustered(int a, int b) { auto l = [] { return 1; }; }
}}
namespace { namespace [[deprecated]] inner { __global__ void hidden() { } } }
template <> __global__ void a::b::special<float, 3>(float *x) { }
__global__ __launch_bounds__(MAX(64, 32)) void after(int n, ...) { }
C10_LAUNCH_BOUNDS_1(512) __global__ void macro_bounds(int n) { }
[[nodiscard]] __global__ void attributed(float (*f)(int, int), int n) { }
int main() { bounded<float, 1><<<1, 1>>>(0, {}); return 0; }
"""


def found(name: str) -> Definition:
    (one,) = [each for each in definitions(TEXT) if each.name == name]
    return one


@pytest.mark.parametrize(
    ("name", "scopes", "template", "parameters"),
    [
        ("scale_kernel", ("a", "b", "v1"), False, 1),
        ("other", ("a", "b", "v1"), False, 1),
        ("whole_float", ("a", "b", "v1"), False, 2),
        ("whole_int", ("a", "b", "v1"), False, 2),
        ("branches", ("a", "b", "v1"), False, 1),
        ("bounded", ("a", "b", "v1"), True, 2),
        ("plain_c", ("a", "b", "v1"), False, 0),
        ("clustered", ("a", "b", "v1"), False, 2),
        ("hidden", ("", "inner"), False, 0),
        ("special", ("a", "b"), True, 1),
        ("after", (), False, None),
        ("macro_bounds", (), False, 1),
        ("attributed", (), False, 2),
    ],
)
def test_ways_to_write_a_kernel(
    name: str, scopes: tuple[str, ...], template: bool, parameters: int | None
) -> None:
    each = found(name)
    assert (each.scopes, each.is_template, each.parameters) == (scopes, template, parameters)
    line = next(n for n, text in enumerate(TEXT.splitlines(), 1) if _marks(name) in text)
    assert each.line == line
    assert each.first <= each.line <= each.last


def _marks(name: str) -> str:
    made = {"scale_kernel": "KERNEL(scale)", "whole_float": "WHOLE(float)", "whole_int": "WHOLE(int);",
            "branches": "branches(float", "special": "special<"}  # fmt: skip
    return made.get(name, f"{name}(")


def test_what_is_no_definition_is_not_found() -> None:
    names = {each.name for each in definitions(TEXT)}
    assert names.isdisjoint(
        {"commented", "also", "string", "raw_string", "declared", "main", "MAX", "noexcept"}
    )
    assert len(definitions(TEXT)) == 13


def test_functions_that_hold_a_lambda_are_found_by_name() -> None:
    (main,) = [each for each in definitions(TEXT, frozenset(("main",))) if each.name == "main"]
    assert not main.is_kernel
    assert main.line == TEXT.count("\n")


OVERLOADS = """
namespace x { __global__ void k(int a) { } template <class T> __global__ void k(T *a, int b) { } }
namespace y { __global__ void k(int a) { } namespace { __global__ void k(int a, int b) { } } }
"""


@pytest.mark.parametrize(
    ("demangled", "scopes", "parameters", "template"),
    [
        ("x::k(int)", ("x",), 1, False),
        ("void x::k<float>(float*, int)", ("x",), 2, True),
        ("y::k(int)", ("y",), 1, False),
        ("y::(anonymous namespace)::k(int, int)", ("y", ""), 2, False),
    ],
)
def test_a_name_chooses_among_overloads(
    demangled: str, scopes: tuple[str, ...], parameters: int, template: bool
) -> None:
    (one,) = matching(parse("_Z", demangled), definitions(OVERLOADS))
    assert (one.scopes, one.parameters, one.is_template) == (scopes, parameters, template)


def test_names_that_leave_two_give_both() -> None:
    text = "__global__ void k(int a) { }\n__global__ void k(float a) { }\n"
    assert [each.line for each in matching(parse("_Z1ki", "k(int)"), definitions(text))] == [1, 2]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("float *x, int n", [("float*", "x"), ("int", "n")]),
        ("const float *__restrict__ x", [("float*", "x")]),
        ("unsigned n, unsigned long long m = 3", [("unsigned int", "n"), ("unsigned long long", "m")]),
        ("float *const *table", [("float**", "table")]),
        ("const __grid_constant__ Params p", [("Params", "p")]),
        ("std::pair<int, float> q, ns::T", [("std::pair<int, float>", "q"), ("ns::T", "")]),
        ("int, float*", [("int", ""), ("float*", "")]),
        ("Vec<4> &v", [("Vec<4>&", "v")]),
        ("float (*f)(int, int), int n", [("float ( * f ) ( int , int )", "f"), ("int", "n")]),
        ("", []),
        ("void", []),
        ("Ts... all", None),
    ],
)
def test_parameters_as_written(written: str, expected: list[tuple[str, str]] | None) -> None:
    (one,) = definitions(f"__global__ void k({written}) {{ }}\n")
    assert one.parameter_pairs == (None if expected is None else tuple(expected))


@given(st.text(alphabet="{}()<>[];:#\n\"'/*\\ a,_", max_size=200), st.booleans())
def test_any_text_is_read(text: str, with_kernel: bool) -> None:
    whole = text + ("\n__global__ void k(int x) { }\n" if with_kernel else "")
    for each in definitions(whole, frozenset(("a", "k"))):
        assert 1 <= each.first <= each.last <= whole.count("\n") + 1
    parsing.kernel_macros(whole)
