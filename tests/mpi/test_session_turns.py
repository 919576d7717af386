"""Remap points that turns share, functions called after resizes, task farms."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import ONE_HOST, OWN, Recipe, run_job

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def lines(ranks: int, *words: object, recipe: Recipe = OWN) -> list[dict[str, Any]]:
    """What a program prints."""
    program, *rest = words
    ended = run_job(recipe, ranks, [str(PROGRAMS / str(program)), *map(str, rest)], limit_s=200)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def test_turns_share_remap_points_and_long_ones_are_noticed() -> None:
    (found,) = lines(2, "session_pace.py")
    reports = found["reports"]
    assert set(found["seqs"]) == {len(reports)}, "the ranks disagree on what was a remap point"
    loops = [loop for loop, *_ in reports]
    assert sum(turns for _, turns, *_ in reports) == 400 + 8 + 100 + 50, "each turn counts once"
    assert 3 <= loops.count("short") <= 60
    short_s = sorted(time_s for loop, _, time_s, _ in reports if loop == "short")
    assert 0.9e-3 <= short_s[len(short_s) // 2] < 0.1, "nor is there any of the second of set-up"
    long = [(time_s, at_s) for loop, _, time_s, at_s in reports if loop == "long"]
    # Without checks the first would come after 90 turns, which this loop does not have.
    assert 1 <= len(long) <= 8
    assert all(time_s >= 39e-3 for time_s, _ in long), "turns of another loop are in the mean"
    assert reports[0][1] == 1, "the first turn is a remap point"
    assert reports[0][2] < 1.0, "the first turn includes the set-up"


def test_functions_are_called_on_all_ranks_after_each_resize() -> None:
    told = lines(2, "session_hooks.py", 8, *OWN.hosts)
    calls = [line for line in told if "hook" in line]
    times_s = [line["turn"] for line in told if "turn" in line]
    by_size = Counter((call["hook"], call["size"]) for call in calls)
    # A size of n has n calls each time that the job comes to it.
    assert all(count % size == 0 for (_, size), count in by_size.items()), by_size
    times = {size: count // size for (hook, size), count in by_size.items() if hook == "plan"}
    assert sum(times.values()) == 9, "at the first turn, and after each of 8 resizes"
    assert by_size["halo", 2] == by_size["plan", 2]
    joined = {call["pid"] for call in calls} - {call["pid"] for call in calls[:4]}
    assert joined
    # Cores are few: a turn may be late, but each first turn would have the half second.
    assert sum(time_s >= 0.5 for time_s in times_s) < 3, (
        "the time of a function is in that of a turn"
    )


def test_what_a_program_keeps_is_right_after_every_resize(tmp_path: Path) -> None:
    first, *told, last = lines(2, "session_kept.py", 8, tmp_path / "failed", *OWN.hosts)
    assert "rs.keep 'odd' is an array of shape (3,)" in first["why"]
    assert [line["committed"] for line in told] == list(range(2, 10))
    assert last["turns"] == sum(last["sizes"].values()) >= 9
    assert len(last["sizes"]) >= 4


@pytest.mark.parametrize(
    ("ranks", "recipe"), [(1, OWN), (3, OWN), (2, ONE_HOST)], ids=["one", "three", "mpiexec"]
)
def test_task_farms(ranks: int, recipe: Recipe) -> None:
    (found,) = lines(ranks, "session_farm.py", recipe=recipe)
    assert found["tasks"] == list(range(40))
    assert found["same"], "all ranks have all results"
    done = sorted(number for counts in found["counts"] for number in counts)
    assert done == list(range(40)), "a task was lost, or done twice"
    if ranks > 1:
        assert found["ranks"] == ranks
        busy = [len(counts) for counts in found["counts"] if 0 in counts]
        assert busy[0] < 40 // ranks, "the rank with the long task got its share of the others, too"
    for rank, told in enumerate(found["errors"]):
        (index, text, cause), (index2, text2, _), count, *rest = told
        assert (index, index2, count) == (1, 0, 299)
        assert "task 1 (13) on rank" in text
        assert "ArithmeticError: thirteen" in text
        assert "session_farm.py" in text
        assert "pickle" in text2 or "lambda" in text2
        assert cause in ("ArithmeticError", "NoneType")
        counts = [3 + r for r in range(ranks)]
        refusal = f"rs.map needs the same tasks on every rank; they have {counts} tasks"
        assert rest == ([refusal] if ranks > 1 else []), rank
    assert found["empty"] == []
    assert found["nested"] == [0, 2, 4]


def test_conjugate_gradients_of_scipy_are_resized_from_their_callback() -> None:
    words = [str(PROGRAMS / "session_example.py"), "8", str(EXAMPLES / "cg.py"), "2000", *OWN.hosts]
    ended = run_job(OWN, 2, words, limit_s=200)
    assert ended.code == 0, ended.err
    *told, last = ended.out.splitlines()
    # Of several nodes: the keeper of one may be loading scipy while the other's ranks print.
    assert sorted(json.loads(line)["committed"] for line in told) == list(range(1, 9))
    word, residual, on, _ = last.split()
    assert (word, on) == ("residual", "on")
    assert float(residual) < 1e-9
