"""Ranks that come and go, with real ranks: all of it under DQ's keepers, the core under mpiexec.

The protocol leans on details of MPICH 5.0.2 (docs/mpiexec.md): these tests name that version.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import LABELS, LABELS_SPAWN, ONE_HOST, OWN, OWN_SPAWN, Ended, Recipe, run_job

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).with_name("programs")


def on(*recipes: Recipe) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("recipe", recipes, ids=lambda r: r.name)


own_only = on(OWN)
both_launchers = on(OWN, LABELS)


def story(recipe: Recipe, name: str, ranks: int = 4, **options: Any) -> tuple[Ended, Any]:
    """Run one story of scenario.py; the object it prints is added as `told`."""
    hosts = recipe.hosts if len(recipe.hosts) > 1 else recipe.hosts * 4
    ended = run_job(recipe, ranks, [str(PROGRAMS / "scenario.py"), name, *hosts], **options)
    # mpiexec may forward a line of one rank and its newline with another rank's in between.
    read = json.JSONDecoder().raw_decode
    told = [read(line, line.index("{"))[0] for line in ended.out.splitlines() if "{" in line]
    return ended, told[-1] if told else None


def cycles(
    recipe: Recipe,
    count: int,
    limit: int,
    seed: int,
    limit_s: float,
    folder: Path | None = None,
    first_stays: bool = False,
) -> Any:
    """`folder`: for temporary files, to count them."""
    options = ["--first-stays"] if first_stays else []
    words = [str(count), str(limit), str(seed), *options, *recipe.hosts]
    env = {"TMPDIR": str(folder)} if folder else None
    ended = run_job(recipe, 2, [str(PROGRAMS / "cycles.py"), *words], limit_s=limit_s, env=env)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


# What a rank keeps of every rank that it has met (docs/ranks.md); it is gone when the rank leaves.
KEPT_OF_A_PEER_KIB = 128


def assert_flat(result: dict[str, Any], warm_up: int, staying: bool = False) -> None:
    """Nothing that the ranks and their keeper hold grows with the number of cycles.

    staying: rank 0 never leaves, and keeps something of every other rank.
    """
    marks, sizes = result["marks"], [2, *result["sizes"]]
    warm = [m for m in marks if m["cycle"] < warm_up]
    late = [m for m in marks if m["cycle"] >= marks[-1]["cycle"] - warm_up]
    met = sum(max(0, after - before) for before, after in itertools.pairwise(sizes))
    for what in ("files", "parent_files", "names", "memory_kib", "parent_memory_kib"):
        most = max(m[what] for m in warm)
        most = most * 1.1 + 4096 if what.endswith("kib") else most + 8
        if staying and what == "memory_kib":
            most += KEPT_OF_A_PEER_KIB * met
        assert max(m[what] for m in late) <= most, (what, met, warm, late)


@on(OWN, OWN_SPAWN, LABELS, LABELS_SPAWN)
def test_any_subset_leaves_and_new_ranks_come_many_times(recipe: Recipe) -> None:
    count = 20 if recipe is OWN else 12
    result = cycles(recipe, count, 6, seed=1, limit_s=600)
    assert len(result["sizes"]) == count
    assert {1, 6} <= set(result["sizes"])


@pytest.mark.slow
@own_only
def test_two_hundred_cycles_leak_nothing(recipe: Recipe, tmp_path: Path) -> None:
    result = cycles(recipe, 200, 8, seed=2, limit_s=850, folder=tmp_path)
    assert_flat(result, warm_up=60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first_stays", [False, True], ids=["any leaves", "the first stays"])
def test_soak_of_a_thousand_cycles(tmp_path: Path, first_stays: bool) -> None:
    result = cycles(OWN, 1000, 8, 3, limit_s=1700, folder=tmp_path, first_stays=first_stays)
    assert_flat(result, warm_up=100, staying=first_stays)


@both_launchers
def test_four_starting_ranks_shrink_to_one_that_was_not_rank_zero(recipe: Recipe) -> None:
    ended, told = story(recipe, "shrink_to_one")
    assert (ended.code, told["size"]) == (0, 1), ended.err


@on(OWN, LABELS_SPAWN)
def test_job_moves_to_processors_it_did_not_start_on(recipe: Recipe) -> None:
    ended, told = story(recipe, "to_other_processors")
    assert ended.code == 0, ended.err
    assert told["spawned"] == [True, True]
    assert told["where"] == [recipe.hosts[-1]] * 2


@on(OWN_SPAWN, LABELS)
def test_node_grown_onto_released_and_grown_onto_again(recipe: Recipe) -> None:
    ended, told = story(recipe, "same_node_again")
    assert (ended.code, told["size"]) == (0, 4), ended.err
    assert told["where"][1:] == [recipe.hosts[-1]] * 3


@on(OWN, LABELS_SPAWN)
def test_requests_that_nobody_has_waited_for_hold_up_no_resize(recipe: Recipe) -> None:
    ended, told = story(recipe, "open_requests", ranks=2)
    assert ended.code == 0, ended.err
    # of rank 1 of 2, 4 and then 0 of 2; of rank 3, which has joined
    assert told["heard"] == [[0, 0, 1], [2, 0]]


def test_shared_memory_has_no_name_that_a_killed_rank_could_leave() -> None:
    ended, told = story(OWN, "no_names_of_shared_memory", ranks=3)
    assert (ended.code, told["found"]) == (0, [True] * 3), ended.err
    assert told["named"] == [[]] * 3


def test_a_lone_process_that_aborts_leaves_no_name_in_which_a_later_one_hangs() -> None:
    program = "from resize_lib.processes.failure import abort_job; abort_job(3)"
    lone = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    assert lone.wait(60) == 3
    assert not Path(f"/dev/shm/mpich_shm_{lone.pid:x}_0").exists()


def test_values_of_any_length_reach_every_rank() -> None:
    ended, told = story(OWN, "values_of_any_length", ranks=3)
    assert (ended.code, told["right"]) == (0, [True] * 3), ended.err


@on(OWN, OWN_SPAWN)
def test_new_ranks_stand_in_the_order_their_hosts_were_named(recipe: Recipe) -> None:
    ended, told = story(recipe, "order")
    assert ended.code == 0, ended.err
    assert told["where"] == ["n01"] * 4 + told["wanted"]


@both_launchers
def test_bad_requests_are_refused_alike_on_every_rank_and_the_job_goes_on(recipe: Recipe) -> None:
    ended, told = story(recipe, "refused")
    assert ended.code == 0, ended.err
    assert told["alike"]
    for message, expected in zip(
        told["messages"],
        [
            "SpawnError: the job stays at 4 ranks: the program to spawn is missing",
            "SpawnError: the job stays at 4 ranks: the script to spawn is missing",
            "SpawnError: the job stays at 4 ranks: the folder to start in does not exist",
            "SpawnError: the job stays at 4 ranks: not a host name: 'n01:4,n02'",
            "SpawnError: the job stays at 4 ranks: no host named",
            "ShrinkError: every rank is named to leave",
            "ShrinkError: no rank 4 in a job of 4 ranks",
            "ShrinkError: no rank named to leave",
        ],
        strict=True,
    ):
        assert message.startswith(expected)


@on(OWN, ONE_HOST)
def test_job_that_never_resized_ends_as_any_mpi_program(recipe: Recipe) -> None:
    ended, told = story(recipe, "never_resized")
    assert (ended.code, told["sum"], ended.err.strip()) == (0, 4, "")


@both_launchers
def test_exit_code_of_one_rank_survives_resizes(recipe: Recipe) -> None:
    ended, _ = story(recipe, "exit_code")
    assert ended.code == 3, ended.err


@both_launchers
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("crash_in_spawned", "RuntimeError: a spawned rank fails"),
        ("crash_in_starting", "RuntimeError: a starting rank fails"),
        ("crash_unresized", "RuntimeError: one rank fails"),
    ],
)
def test_uncaught_exception_shows_its_traceback_and_takes_the_job_down(
    recipe: Recipe, name: str, error: str
) -> None:
    ended, _ = story(recipe, name)
    assert ended.code != 0
    assert error in ended.err


@both_launchers
def test_leaver_runs_its_exit_callbacks_and_keeps_its_output(recipe: Recipe) -> None:
    ended, told = story(recipe, "exit_callbacks")
    assert (ended.code, told["size"]) == (0, 3), ended.err
    for rank in range(4):
        assert f"callback of rank {rank}" in ended.out


@own_only
def test_spawned_ranks_run_the_same_command_after_a_change_of_folder(recipe: Recipe) -> None:
    ended, told = story(recipe, "same_command", ranks=1)
    assert ended.code == 0, ended.err
    first, second = told["commands"]
    assert first == second


@own_only
def test_script_is_found_by_new_ranks_where_the_first_ones_found_it(recipe: Recipe) -> None:
    script = os.path.relpath(PROGRAMS / "scenario.py")
    ended = run_job(recipe, 1, [script, "same_command", recipe.hosts[0]])
    assert ended.code == 0, ended.err
    first, second = json.loads(ended.out)["commands"]
    assert first == second


@on(OWN, OWN_SPAWN, ONE_HOST)
def test_module_form_and_interpreter_flags_reach_spawned_ranks(recipe: Recipe) -> None:
    program = ["-O", "-m", "tests.mpi.programs.scenario", "same_command", "localhost"]
    ended = run_job(recipe, 1, program)
    assert ended.code == 0, ended.err
    first, second = json.loads(ended.out)["commands"]
    assert first == second
    assert first[1:] == [1, "__main__", True]


@both_launchers
def test_job_computes_on_while_its_new_ranks_start(recipe: Recipe) -> None:
    ended, told = story(recipe, "in_the_background", ranks=2)
    assert ended.code == 0, ended.err
    assert told["where"] == [recipe.start] * 2 + [recipe.hosts[-1]] * 2
    assert told["turns"] > 1


@both_launchers
@pytest.mark.parametrize(
    ("name", "size"),
    [("cancelled", 3), ("never_completed", 2), ("begun_by_a_leaver", 2), ("begun_twice", 3)],
)
def test_expansion_under_way_may_be_called_off_at_any_moment(
    recipe: Recipe, name: str, size: int
) -> None:
    ended, told = story(recipe, name, ranks=2)
    assert (ended.code, told["size"]) == (0, size), ended.err


@own_only
def test_second_expansion_and_completion_of_none_are_refused(recipe: Recipe) -> None:
    _, told = story(recipe, "begun_twice", ranks=2)
    none, second = told["messages"]
    assert none.endswith("no expansion was begun")
    assert second == "another expansion is under way"


@own_only
def test_program_that_does_not_join_in_time_leaves_the_job_at_its_size(recipe: Recipe) -> None:
    ended, told = story(recipe, "too_late", ranks=2)
    assert ended.code == 0, ended.err
    says = "the job stays at 2 ranks: the 1 new ranks have not come to their loop in 0.5 s"
    assert len(told["heard"]) == 2 and all(text.startswith(says) for text in told["heard"])


def test_expansion_onto_a_dead_node_leaves_the_job_at_its_size() -> None:
    ended, told = story(LABELS, "dead_node", ranks=2)
    assert ended.code == 0, ended.err
    reason = "cannot start a process on nosuch: no such node: nosuch"
    assert told["messages"] == [f"the job stays at 2 ranks: {reason}"] * 2
    assert told["where"] == ["n01", "n01", "n02"]


def test_job_that_starts_on_a_dead_node_ends_at_once_and_says_why() -> None:
    ended, told = story(LABELS, "never_resized", nodes=["n02"])
    assert told is None
    assert ended.code != 0
    assert "no such node: n01" in ended.err
