"""Which loader a program asks for: into one that asks for none, nothing can be preloaded."""

from __future__ import annotations

from pathlib import Path

from kerncap.format.elf import ElfProblem, library_reads

_MAX_NAME = 4096


def asked_loader(path: Path) -> str | None:
    """The loader that the ELF64 program at ``path`` names; "" if it names none, None for any other file."""
    from elftools.elf.elffile import ELFFile

    try:
        with open(path, "rb") as file, library_reads("the program"):
            program = ELFFile(file)
            if program.elfclass != 64 or program["e_type"] not in ("ET_EXEC", "ET_DYN"):
                return None
            for segment in program.iter_segments("PT_INTERP"):
                if segment["p_filesz"] <= _MAX_NAME:
                    return segment.data().rstrip(b"\0").decode(errors="replace")
            return ""
    except (OSError, ElfProblem):
        return None
