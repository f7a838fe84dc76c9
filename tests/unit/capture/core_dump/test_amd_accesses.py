"""The accesses that a wave made before it stopped, by its code."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from kerncap.api.diff import code_diff
from kerncap.capture.core_dump.amd.accesses import MAX_CODE_BYTES, Access, before, size
from kerncap.capture.images import offload_bundle

SAMPLE = Path(__file__).parents[4] / "samples" / "core_dump" / "amd.tar.xz"
START = 0x7000
# As llvm-mc writes them for gfx942.
LOAD = "008054dc00007f02"  # global_load_dwordx2 v[2:3], v[0:1], off
LOAD_OVER = "008050dc00007f00"  # global_load_dword v0, v[0:1], off
STORE = "088070dc00047f00"  # global_store_dword v[0:1], v4, off offset:8
STORE_BACK = "fc9f70dc06040400"  # global_store_dword v6, v4, s[4:5] offset:-4
STORE_FLAT = "000070dc00040000"  # flat_store_dword v[0:1], v4
STORE_SCRATCH = "006070dc00047f00"  # scratch_store_dword v0, v4, off
ADD = "008008dd00047f00"  # global_atomic_add v[0:1], v4, off
ADD_BACK = "008009dd00047f00"  # the same with the old value to v0: sc0
MOV_V0, MOV_V1, MOV_S4 = "8002007e", "8002027e", "800084be"
MAD = "0004e8d102070204"  # v_mad_u64_u32 v[0:1], s[4:5], v2, v3, v[0:1]
MFMA = "0080c0d300030204"  # v_mfma_f32_32x32x1_2b_f32 a[0:31], v0, v1, a[0:31]
FIRST_LANE = "00050a7e"  # v_readfirstlane_b32 s5, v0
SCALAR_LOAD = "000106c008000000"  # s_load_dwordx2 s[4:5], s[0:1], 0x8
LDS_LOAD = "00006cd801000000"  # ds_read_b32 v0, v1
ADD_LITERAL = "ff02126845230100"  # v_add_u32 v9, 0x12345, v1
BRANCH, BACK = "010082bf", "fdff85bf"  # by one word; s_cbranch_scc1 by three words back
CALL, SET_EXEC, SAVE_EXEC, COMPARE = "041e9ebe", "0001febe", "6a2082be", "0003b47d"
LOAD_LDS = "0080a8dc00007f00"  # global_load_lds_dword: it isn't known what it writes
WAIT, NOP, END = "700f8cbf", "000080bf", "000081bf"


def found(*code: str, stopped: int) -> tuple[Access, ...]:
    """The accesses before instruction number ``stopped``."""
    pc = START + sum(len(word) // 2 for word in code[:stopped])
    return before(bytes.fromhex("".join(code)), START, pc)


def test_what_each_access_says() -> None:
    assert found(LOAD, WAIT, END, stopped=1) == (Access(START, 0, None, 0, False),)
    assert found(STORE, END, stopped=1) == (Access(START, 0, None, 8, False),)
    assert found(STORE_BACK, END, stopped=1) == (Access(START, 6, 4, -4, False),)
    assert found(STORE_FLAT, END, stopped=1) == (Access(START, 0, None, 0, True),)
    assert found(ADD, END, stopped=1) == (Access(START, 0, None, 0, False),)
    assert found(STORE_SCRATCH, END, stopped=1) == ()


def test_the_last_one_is_first() -> None:
    assert [each.pc - START for each in found(LOAD, ADD_LITERAL, STORE, WAIT, NOP, END, stopped=4)] == [16, 0]


@pytest.mark.parametrize("written", [MOV_V0, MOV_V1, MAD, MFMA, LDS_LOAD, LOAD_OVER, ADD_BACK])
def test_an_address_that_was_overwritten_is_not_known(written: str) -> None:
    assert START not in {each.pc for each in found(STORE, written, END, stopped=2)}


@pytest.mark.parametrize("written", [MOV_S4, MAD, FIRST_LANE, SCALAR_LOAD])
def test_a_base_that_was_overwritten_is_not_known(written: str) -> None:
    assert found(STORE_BACK, written, END, stopped=2) == ()


@pytest.mark.parametrize("written", [NOP, WAIT, ADD_LITERAL, STORE_SCRATCH])
def test_what_writes_neither(written: str) -> None:
    assert START in {each.pc for each in found(STORE, written, END, stopped=2)}
    assert START in {each.pc for each in found(STORE_BACK, written, END, stopped=2)}


@pytest.mark.parametrize("end", [BRANCH, CALL, SET_EXEC, SAVE_EXEC, COMPARE, END, LOAD_LDS])
def test_code_is_followed_back_only_where_it_is_straight(end: str) -> None:
    assert found(STORE, end, NOP, END, stopped=2) == ()


def test_where_a_branch_leads() -> None:
    """The wave may have come from it: then it did not make the access."""
    assert found(STORE, NOP, NOP, BACK, END, stopped=2) == ()
    assert [each.pc - START for each in found(NOP, STORE, NOP, BACK, END, stopped=3)] == [4]


def test_code_that_is_not_known() -> None:
    assert found(STORE, "ffffffff", END, stopped=1) == ()
    assert before(bytes.fromhex(STORE + END), START, START + 4) == ()  # within an instruction
    assert before(bytes.fromhex(STORE)[:4], START, START) == ()
    assert before(bytes(MAX_CODE_BYTES + 4), START, START + 4) == ()
    assert before(b"", START, START) == ()


@pytest.mark.parametrize(("arch", "older"), [("gfx90a", "gfx90a"), ("gfx942", "gfx940")])
def test_every_instruction_is_as_long_as_llvm_says(arch: str, older: str, tmp_path: Path) -> None:
    with tarfile.open(SAMPLE) as archive:
        archive.extract("fault", tmp_path, filter="data")
    packed = (tmp_path / "fault").read_bytes()
    code = offload_bundle.code_object(packed[packed.index(offload_bundle.MAGIC) :], arch)
    assert code is not None
    image = tmp_path / "code"
    image.write_bytes(code[0])
    tried = (_instructions(tool, name, image) for tool in code_diff._objdumps() for name in (arch, older))
    lines = next(filter(None, tried), None)
    if lines is None:
        pytest.skip("no llvm-objdump that knows AMD GPUs")
    assert len(lines) > 500
    assert [words for words in lines if size(int(words[:8], 16)) != 4 * len(words.split())] == []


def _instructions(tool: str, arch: str, image: Path) -> list[str]:
    """The words of each, but for what this LLVM doesn't know, and what is behind that."""
    command = [tool, "--disassemble", "--triple=amdgcn--amdhsa", f"--mcpu={arch}", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    listing = re.sub(r"\t\.long .*\n.*\n", "", done.stdout)
    return [] if done.returncode else re.findall(r"// [0-9A-F]{12}: ([0-9A-F ]{8,})$", listing, re.MULTILINE)
