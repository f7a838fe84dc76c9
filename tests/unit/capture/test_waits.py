"""Which kernels load in a loop what another device may change: from machine code and from PTX."""

from __future__ import annotations

import struct

import pytest

from kerncap.capture import images
from kerncap.capture.images import Chosen
from tests.unit.capture.built_images import cubin

# (bits 0 to 63, 64 to 127) as ptxas made them of `again: ld…; setp; @p bra again; …`, for sm_80 and sm_90.
LOADS = {
    "volatile": (0x0000000402057981, 0x000EA4000C1F5900),  # LDG.E.STRONG.SYS
    "acquire, generic": (0x0000000402057980, 0x000EA4000C115900),  # LD.E.STRONG.SYS
    "cas": (0x00000004020273A9, 0x000EA400001F4105),  # ATOMG.E.CAS.STRONG.SYS
}
NO_WAITS = {
    "plain": (0x0000000402047981, 0x000EA8000C1E1900),  # LDG.E
    "constant": (0x0000000402047981, 0x000EA8000C1E9900),  # LDG.E.CONSTANT
    "of this device": (0x0000000402057981, 0x000EA4000C1EF900),  # LDG.E.STRONG.GPU
}
BACK = {80: (0xFFFFFFD000008947, 0x000FEA000383FFFF), 90: (0xFFFFFFFC00F48947, 0x000FEA000383FFFF)}  # by 48
FORWARD = {80: (0x0000009000009947, 0x000FEA0003800000), 90: (0x0000000000248947, 0x000FEA0003800000)}
TEST = (0x000000000500720C, 0x004FE20003F05270)  # ISETP
KERNEL = "wait"


def made_of(code: tuple[tuple[int, int], ...], name: str = KERNEL) -> bytes:
    return cubin(kernels={name: []}, code=b"".join(struct.pack("<QQ", *each) for each in code))


def waits(arch: int, *code: tuple[int, int]) -> bool:
    return images.waits(Chosen(made_of(code), f"sm_{arch}a"), KERNEL)


@pytest.mark.parametrize("arch", BACK)
def test_a_load_of_the_system_s_in_a_loop_waits(arch: int) -> None:
    for name, load in LOADS.items():
        assert waits(arch, load, TEST, BACK[arch]), name
    for name, load in NO_WAITS.items():
        assert not waits(arch, load, TEST, BACK[arch]), name


@pytest.mark.parametrize("arch", BACK)
def test_what_is_outside_of_the_loop_does_not_count(arch: int) -> None:
    load = LOADS["volatile"]
    assert not waits(arch, load, TEST, FORWARD[arch])
    assert not waits(arch, load, TEST, TEST, BACK[arch], load)


def test_another_kernel_s_code_does_not_count() -> None:
    code = made_of((LOADS["volatile"], TEST, BACK[90]), "another")
    assert not images.waits(Chosen(code, "sm_90"), KERNEL)


def may_wait(*code: tuple[int, int], arch: str = "sm_90a", kernel: str = KERNEL) -> bool:
    return images.may_wait_for_launches(Chosen(made_of(code), arch), kernel)


def test_a_kernel_of_plain_loads_waits_for_no_launch() -> None:
    plain, constant = NO_WAITS["plain"], NO_WAITS["constant"]
    assert not may_wait(plain, constant, TEST, BACK[90])
    assert may_wait(plain, NO_WAITS["of this device"])
    for name, load in LOADS.items():
        assert may_wait(plain, load), name
    calls = {"CALL.ABS": 0x7943, "JMP": 0x794A, "JMX": 0x794C}
    for name, operation in calls.items():
        assert may_wait(plain, (operation, 0)), name


def test_what_is_not_known_may_wait() -> None:
    plain = NO_WAITS["plain"]
    assert may_wait(plain, arch="sm_120") and may_wait(plain, arch="") and may_wait(plain, kernel="other")
    assert images.may_wait_for_launches(Chosen(ptx=ptx("ret;")), KERNEL)
    assert images.may_wait_for_launches(Chosen(b"\x7fELF", "sm_90"), KERNEL)


def test_what_a_called_function_does_counts() -> None:
    call, plain, atomic = (0x7944, 0), NO_WAITS["plain"], LOADS["cas"]
    code = b"".join(struct.pack("<QQ", *each) for each in (call, plain))
    other = b"".join(struct.pack("<QQ", *each) for each in (plain, atomic))
    made = cubin(kernels={KERNEL: [], "other": []}, code=code)
    assert not images.may_wait_for_launches(Chosen(made, "sm_90"), KERNEL)
    swapped = made.replace(code, other, 2).replace(other, code, 1)
    assert images.may_wait_for_launches(Chosen(swapped, "sm_90"), KERNEL)


def ptx(*lines: str, name: str = KERNEL) -> bytes:
    body = "\n ".join(lines)
    return (
        f".version 8.0\n.target sm_90\n.visible .entry {name}(\n .param .u64 a\n)\n{{\n {body}\n}}\n".encode()
    )


@pytest.mark.parametrize(
    ("load", "waits"),
    [
        ("ld.volatile.global.u32 %r1, [%rd1];", True),
        ("ld.acquire.sys.u32 %r1, [%rd1];", True),
        ("ld.relaxed.sys.global.u64 %rd2, [%rd1];", True),
        ("atom.global.acquire.sys.cas.b32 %r1, [%rd1], 1, 0;", True),
        ("ld.global.u32 %r1, [%rd1];", False),
        ("ld.acquire.gpu.u32 %r1, [%rd1];", False),
        ("// ld.volatile.u32 %r1, [%rd1];", False),
    ],
)
def test_ptx_says_it_too(load: str, waits: bool) -> None:
    loop = ptx("$again:", load, "setp.eq.s32 %p1, %r1, 0;", "@%p1 bra $again;", "ret;")
    assert images.waits(Chosen(ptx=loop), KERNEL) is waits
    once = ptx(load, "$again:", "@%p1 bra $again;", "ret;")
    assert not images.waits(Chosen(ptx=once), KERNEL)
    assert not images.waits(Chosen(ptx=ptx("ret;") + loop.replace(b"wait", b"more")), KERNEL)
