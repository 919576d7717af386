"""What one rank has found in the program's files, for those that start later; what it looks at."""

from __future__ import annotations

import json
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dq_client.check import undeclared
from resize_lib import carried_values
from resize_lib.carried_values import NOTES_VARIABLE, Found, Sources
from resize_lib.processes import sources

PROGRAM = """
import resize_lib
count = 7
if ask():
    with resize_lib.session() as rs:
        for turn in rs.iterations(3):
            work(turn * count)
            count += 1
"""
Asked = tuple[str, list[Found]]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A file with a variable that turns leave for one another, and that nobody has declared."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def asked_in(program: Path) -> Asked:
    """A rank that joins, in the midst of this program: its notes, and what it has found."""
    told: list[Asked] = []

    def ask() -> bool:
        found = Sources()
        told.append((found.read(), found.found()))
        return False

    linecache.clearcache()  # as in a process of its own
    exec(compile(program.read_text(), str(program), "exec"), {"ask": ask})
    return told[0]


@pytest.fixture
def no_reading(program: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, to look into the program's source fails."""

    def refuse(source: str, file: str) -> list[tuple[int, str, str]]:
        assert file != str(program), "it was read again"
        return undeclared(source, file)  # who runs the tests may be no package

    return lambda: monkeypatch.setattr(carried_values, "undeclared", refuse)


def test_what_one_rank_notes_the_next_need_not_find_out(
    program: Path, monkeypatch: pytest.MonkeyPatch, no_reading: Callable[[], None]
) -> None:
    notes, found = asked_in(program)
    assert [(each.place, each.how, each.shown) for each in found] == [("count", "carried", "7")]
    no_reading()
    monkeypatch.setenv(NOTES_VARIABLE, notes)
    assert asked_in(program) == ("", found), "nothing new"


def test_notes_of_another_version_of_a_file_do_not_count(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, _ = asked_in(program)
    program.write_text(PROGRAM.replace("count", "steps"))
    monkeypatch.setenv(NOTES_VARIABLE, notes)
    renewed, found = asked_in(program)
    assert [each.place for each in found] == ["steps"]
    assert json.loads(renewed).keys() == json.loads(notes).keys()
    assert renewed != notes


def test_notes_that_are_too_long_for_a_keeper_are_not_given(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, found = asked_in(program)
    monkeypatch.setattr(carried_values, "NOTES_BYTES_MAX", len(notes) - 1)
    assert asked_in(program) == ("", found)


def test_modules_that_a_starter_has_loaded_are_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But those it has loaded count, and so does the main program, whose place is an old one."""
    files = {name: tmp_path / f"{name}.py" for name in ("early", "main", "late")}
    for path in files.values():
        path.write_text("")

    def load(name: str, file: Path) -> None:
        module = ModuleType(name)
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, name, module)

    monkeypatch.setattr(sources, "_loaded", {})
    monkeypatch.delitem(sys.modules, sources._PRELOADED, raising=False)
    load("early", files["early"])
    sources.remember_preloaded()
    monkeypatch.setitem(sys.modules, sources._PRELOADED, sys.modules[sources._PRELOADED])
    try:
        assert str(files["early"]) in sources._loaded
        load("__main__", files["main"])
        load("late", files["late"])
        assert sources._own_files() == {str(files["main"]), str(files["late"])}
    finally:
        sys.modules.pop(sources._PRELOADED, None)
