"""A program that is edited while its job runs: new ranks of another version are not taken in."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.ranks import LABELS, OWN, OWN_SPAWN, Recipe, run_job
from resize_lib.processes import sources
from resize_lib.processes.interface import SpawnError
from resize_lib.processes.sources import check_sources, remember_sources

PROGRAM = Path(__file__).with_name("programs") / "edited_while_running.py"


@pytest.mark.mpi
@pytest.mark.parametrize("recipe", [OWN, LABELS, OWN_SPAWN], ids=lambda r: r.name)
def test_job_grows_only_while_its_program_is_what_it_has_loaded(
    recipe: Recipe, tmp_path: Path
) -> None:
    program = shutil.copy(PROGRAM, tmp_path)
    edited = tmp_path / "edited.py"
    edited.write_text("VERSION = 1\n")
    ended = run_job(recipe, 2, [str(program), *recipe.hosts])
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    changed, gone, meanwhile = told["told"]
    for answers in (changed, gone, meanwhile):
        assert len(answers) == 2
        assert len(set(answers)) == 1, "the same on every rank"
    for answers, says in ((changed, "was changed at "), (gone, "is gone"), (meanwhile, "was ch")):
        assert answers[0].startswith(f"the job stays at 2 ranks: {edited} {says}")
    assert told["versions"] == [1, 1, 1], "grown in the end: it is as it was"


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module that the program has loaded, and the only one that counts."""
    path = tmp_path / "part.py"
    path.write_text("x = 1\n")
    module = ModuleType("part")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "part", module)
    monkeypatch.setattr(sources, "_loaded", {})
    monkeypatch.setattr(sources, "_own_files", lambda: {str(path)})
    remember_sources()
    return path


def test_file_of_the_same_contents_is_the_same_whatever_its_time(loaded: Path) -> None:
    os.utime(loaded, (1, 1))
    check_sources()
    loaded.write_text("x = 2\n")  # of the same length
    os.utime(loaded, (2, 2))
    with pytest.raises(SpawnError, match=r"part\.py was changed at .*undo the change"):
        check_sources()
    loaded.write_text("x = 1\n")
    check_sources()


def test_module_loaded_later_counts_from_the_next_look_on(
    loaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = loaded.with_name("later.py")
    later.write_text("")
    monkeypatch.setattr(sources, "_own_files", lambda: {str(loaded), str(later)})
    check_sources()
    later.write_text("y = 1\n")
    with pytest.raises(SpawnError, match=r"later\.py was changed"):
        check_sources()


def test_installed_packages_and_dq_do_not_count() -> None:
    found = sources._own_files()
    assert __file__ in found
    assert json.__file__ not in found
    assert pytest.__file__ not in found
    assert sources.__file__ not in found
