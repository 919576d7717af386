"""Sessions resized by script, with real ranks: any subset leaves, every element is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import LABELS, ONE_HOST, OWN, OWN_SPAWN, Recipe, run_job

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).with_name("programs")

both_paths = pytest.mark.parametrize("path", ["patient", "begun"])


def resized(
    recipe: Recipe, which: str, size: int, path: str, limit_s: float
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run one script; what the session reported, and the program's own last words."""
    program = [str(PROGRAMS / "session_resizes.py"), which, str(size), path, *recipe.hosts]
    ended = run_job(recipe, size, program, limit_s=limit_s)
    assert ended.code == 0, ended.err
    *told, last = [json.loads(line) for line in ended.out.splitlines()]
    return told, last


def committed(told: list[dict[str, Any]]) -> list[int]:
    return [t["committed"] for t in told if "committed" in t]


def assert_flat(marks: list[list[int]]) -> None:
    """Open files and memory (±5 %) of the largest rank in the last quarter as in the first."""
    quarter = len(marks) // 4
    early, late = marks[:quarter], marks[-quarter:]
    assert max(m[2] for m in late) <= max(m[2] for m in early) + 8
    assert max(m[3] for m in late) <= max(m[3] for m in early) * 1.05


def assert_no_communicator_kept(last: dict[str, Any]) -> None:
    """MPI can make as many communicators as at the start, within what one resize has in hand."""
    first, in_the_end = last["unused communicators"]
    assert in_the_end >= first - 3, (first, in_the_end)


@pytest.mark.parametrize(
    ("recipe", "path"),
    [(OWN, "begun"), (OWN, "patient"), (OWN_SPAWN, "patient"), (LABELS, "begun")],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_any_subset_leaves_and_every_element_is_right(recipe: Recipe, path: str) -> None:
    told, last = resized(recipe, "random:5:11", 3, path, 600)
    assert committed(told) == list(range(1, 12))
    assert last["sizes"][:5] == [3, 6, 3, 1, 2]
    assert max(last["sizes"]) == 7
    assert_no_communicator_kept(last)
    assert last["ranks"] == last["sizes"][-1]


@pytest.mark.slow
@pytest.mark.timeout(1700)
@both_paths
def test_three_hundred_resizes_leak_nothing(path: str) -> None:
    told, last = resized(OWN, "random:6:300", 4, path, 1500)
    assert committed(told) == list(range(1, 301))
    assert set(last["sizes"]) == set(range(1, 9))
    assert_flat(last["marks"])
    assert_no_communicator_kept(last)
    assert last["ranks"] == last["sizes"][-1]


@pytest.mark.parametrize(
    ("recipe", "path"), [(OWN, "patient"), (LABELS, "begun")], ids=["patient", "begun"]
)
def test_failing_resize_leaves_the_job_and_its_data_as_they_were(recipe: Recipe, path: str) -> None:
    told, last = resized(recipe, "faulty", 4, path, 600)
    failures = [t["why"] for t in told if "aborted" in t]
    expected = [
        "'parcel': pack failed: MemoryError: pack on rank 1 finds no memory",
        "'parcel': unpack failed: MemoryError: unpack on rank 5 finds no memory",
        "'parcel': pack failed: MemoryError: pack on rank 0 finds no memory",
        "'parcel': unpack failed: MemoryError: unpack on rank 1 finds no memory",
        "'parcel': unpack failed: MemoryError: unpack on rank 2 finds no memory",
        "cannot start a process on nosuch: no such node: nosuch",
        "'parcel': unpack failed: MemoryError: unpack on rank 5 finds no memory",
    ]
    if recipe is OWN:  # any host is good
        del expected[5]
    assert len(failures) == len(expected)
    for why, words in zip(failures, expected, strict=True):
        assert words in why
    assert [len(t["pids"]) for t in told if "committed" in t] == [0, 0, 2, 1]
    assert last["sizes"] == [4, 6, 4, 3]
    assert last["ranks"] == 3


def test_value_that_cannot_be_pickled_aborts_the_resize_and_not_the_job() -> None:
    ended = run_job(OWN, 2, [str(PROGRAMS / "session_values.py")])
    assert ended.code == 0, ended.err
    *told, last = [json.loads(line) for line in ended.out.splitlines()]
    first, second = [t["why"] for t in told if "aborted" in t]
    assert "'values of rs.value'': pack failed" in first.replace('"', "'")
    assert "'values of rs.value'': unpack failed" in second.replace('"', "'")
    assert "no key in this process" in second
    assert committed(told) == [3, 4]
    assert last["sizes"] == [2, 4, 3]


def test_empty_and_odd_arguments_reach_spawned_ranks() -> None:
    """An empty word in a spawn request would end MPICH 5.0.2's mpiexec."""
    odd = ["", "it's", "$HOME *", 'a "quoted" word']
    program = [str(PROGRAMS / "scenario.py"), "same_command", "localhost", *odd]
    ended = run_job(ONE_HOST, 1, program)
    assert ended.code == 0, ended.err
    first, second = json.loads(ended.out)["commands"]
    assert first == second
    assert first[0][-4:] == odd
