"""Saves are noticed once, whatever way an editor writes, and never half."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap.api.edit.save_watcher import Watcher


class Time:
    """A clock that moves when somebody waits; ``then`` happens during a wait, one each."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then: list[Callable[[], object]] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        if self.then:
            self.then.pop(0)()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text("one")
    return path


def watching(*files: Path) -> tuple[Watcher, Time]:
    time = Time()
    return Watcher(files, time, time.pause), time


def test_nothing_happens_and_nothing_is_waited_for(file: Path) -> None:
    watcher, time = watching(file)
    assert watcher.changed() == [] and time.now == 0


def test_a_save_counts_once(file: Path) -> None:
    watcher, time = watching(file)
    file.write_text("two, longer")
    assert watcher.changed() == [file]
    assert watcher.changed() == []
    assert time.now <= 0.015, "noticed within 15 ms"


def test_a_save_of_the_same_length_counts(file: Path) -> None:
    watcher, _ = watching(file)
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert watcher.changed() == [file]


def test_a_rename_over_the_file_counts_though_time_and_size_agree(file: Path) -> None:
    watcher, _ = watching(file)
    other = file.with_name("kernel.py~")
    other.write_text("two")
    stat = file.stat()
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(file)
    assert watcher.changed() == [file]


def test_deleted_first_and_written_later_is_one_save(file: Path) -> None:
    watcher, time = watching(file)
    file.unlink()
    time.then = [lambda: None] * 5 + [lambda: file.write_text("two, longer")]
    assert watcher.changed() == [file]
    assert file.read_text() == "two, longer" and watcher.changed() == []


def test_truncated_first_and_written_later_is_one_save(file: Path) -> None:
    watcher, time = watching(file)
    file.write_text("")
    time.then = [lambda: None, lambda: None, lambda: file.write_text("two, longer")]
    assert watcher.changed() == [file]
    assert watcher.changed() == []


def test_a_file_that_grows_is_taken_when_it_stands_still(file: Path) -> None:
    watcher, time = watching(file)
    file.write_text("1")
    time.then = [
        lambda: file.write_text("12"),
        lambda: file.write_text("123"),
        lambda: file.write_text("1234"),
    ]
    assert watcher.changed() == [file]
    assert file.read_text() == "1234" and not time.then and watcher.changed() == []


def test_one_that_is_written_all_the_time_is_judged_all_the_same(file: Path) -> None:
    watcher, time = watching(file)
    file.write_text("x")
    time.then = [lambda n=n: file.write_text("x" * n) for n in range(2, 5000)]  # type: ignore[misc]
    assert watcher.changed() == [file]
    assert time.now < 3


def test_one_that_stays_away_is_no_save_and_its_return_is(file: Path) -> None:
    watcher, time = watching(file)
    file.unlink()
    assert watcher.changed() == [] and 0.5 <= time.now < 1
    file.write_text("back")
    assert watcher.changed() == [file]


def test_an_emptied_file_is_a_save_in_the_end(file: Path) -> None:
    watcher, _ = watching(file)
    file.write_text("")
    assert watcher.changed() == [file]


def test_headers_count_too_even_new_ones(file: Path, tmp_path: Path) -> None:
    header = tmp_path / "sum.cuh"
    watcher, _ = watching(file, header)
    header.write_text("// new")
    assert watcher.changed() == [header]
