"""Kernel names taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.format.kernel_names import KernelName, nested_parts, parse, without_file_hash


@pytest.mark.parametrize(
    ("demangled", "expected"),
    [
        ("plain", KernelName("plain")),
        ("add(float*)", KernelName("add", (), None, ("float*",))),
        ("none()", KernelName("none", (), None, ())),
        ("void A::scale<float>(float*, int)", KernelName("scale", ("A",), "float", ("float*", "int"))),
        ("B::(anonymous namespace)::k(int)", KernelName("k", ("B", ""), None, ("int",))),
        (
            "void f<(int (*)(float))0, &(g(int))>(int (*)(float), decltype(a->b))",
            KernelName("f", (), "(int (*)(float))0, &(g(int))", ("int (*)(float)", "decltype(a->b)")),
        ),
        ("void n<3>::k<a<b<c>>>(a<b<c>>) [clone .x]", KernelName("k", ("n",), "a<b<c>>", ("a<b<c>>",))),
    ],
)
def test_demangled_names(demangled: str, expected: KernelName) -> None:
    assert parse("_Z", demangled) == expected


def test_a_lambdas_function_is_known() -> None:
    name = parse("_Z", "void each<run(float*)::{lambda(int)#1}>(run(float*)::{lambda(int)#1}, int)")
    assert name.has_lambda and name.enclosing_functions() == ("run",)
    assert not parse("_Z", "void each<float>(float)").has_lambda


def test_mangled_names_alone() -> None:
    hidden = "_ZN1B33_GLOBAL__N__40fadfbf_4_m_cu_plain5scaleIfEEvPT_i"
    assert parse(hidden) == KernelName("scale", ("B", ""), "")
    assert parse("_Z3addPf") == KernelName("add")
    assert parse("extern_c") == KernelName("extern_c")
    relocatable = "__nv_static_24__76a88dbd_4_s_cu__Z2goPi__ZN35_GLOBAL__N__76a88dbd_4_s_cu__Z2goPi1kEPi"
    assert parse(relocatable, relocatable) == KernelName("k", ("",))
    assert nested_parts("_ZN2at6native1kEv") == ("at", "native", "k")


def test_names_of_two_builds_compare() -> None:
    plain = without_file_hash("_ZN1B33_GLOBAL__N__40fadfbf_4_m_cu_plain5scaleIfEEvPT_i")
    assert plain == without_file_hash("_ZN1B33_GLOBAL__N__c66ead11_4_m_cu_plain5scaleIfEEvPT_i")
    assert plain != without_file_hash("_ZN1C33_GLOBAL__N__c66ead11_4_m_cu_plain5scaleIfEEvPT_i")
    assert without_file_hash("_Z3addPf") == "_Z3addPf"
    relocatable = "__nv_static_24__76a88dbd_4_s_cu__Z2goPi__ZN35_GLOBAL__N__76a88dbd_4_s_cu__Z2goPi1kEPi"
    assert without_file_hash(relocatable) == without_file_hash(
        "_ZN35_GLOBAL__N__00000000_4_s_cu__Z2goPi1kEPi"
    )


@given(st.text(max_size=80), st.text(alphabet="_ZN0123456789IEabGLOBAL_()<>:, ", max_size=120))
def test_any_name_is_taken_apart(mangled: str, demangled: str) -> None:
    for name in (parse(mangled, demangled), parse("_Z" + mangled), parse(demangled)):
        assert isinstance(name.qualified, str)
        name.enclosing_functions()
    without_file_hash(mangled + demangled)


def test_a_name_of_digits_alone_is_no_length() -> None:
    name = "1" * 20_000 + "_GLOBAL__N_"
    assert without_file_hash(name).endswith("12_GLOBAL__N_1")
