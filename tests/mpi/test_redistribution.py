"""Redistribution with real ranks; the stories are in programs/redistribution.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.ranks import LABELS, ONE_HOST, Recipe, one_node, run_job

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).with_name("programs")


def tell(
    story: str,
    ranks: int,
    *,
    seed: int = 0,
    at_least: int | None = None,
    recipe: Recipe | None = None,
) -> None:
    program = [str(PROGRAMS / "redistribution.py"), story, str(seed)]
    ended = run_job(recipe or one_node(ranks), ranks, program)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out.splitlines()[-1])
    assert result["checked"] >= (ranks if at_least is None else at_least)


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_random_arrays_grids_and_rank_maps_arrive_bit_by_bit(ranks: int) -> None:
    tell("random_moves", ranks, seed=ranks, at_least=25)


@pytest.mark.parametrize("ranks", [2, 6])
def test_arrays_read_from_neighbours_arrive_bit_by_bit(ranks: int) -> None:
    tell("direct_moves", ranks, seed=ranks, at_least=25)


@pytest.mark.parametrize("ranks", [3, 7])
def test_arrays_written_by_those_that_leave_arrive_bit_by_bit(ranks: int) -> None:
    tell("pushed_moves", ranks, seed=ranks, at_least=25)


@pytest.mark.parametrize("ranks", [3, 6])
def test_arrays_moved_in_slabs_arrive_bit_by_bit(ranks: int) -> None:
    tell("slab_moves", ranks, seed=ranks, at_least=25)


@pytest.mark.parametrize(("ranks", "seed"), [(3, 0), (5, 1)])
def test_late_ranks_and_errors_keep_nobody_from_going_on(ranks: int, seed: int) -> None:
    tell("late_ranks_and_errors", ranks, seed=seed, at_least=12)


@pytest.mark.parametrize("ranks", [1, 3])
def test_what_is_done_again_is_done_right(ranks: int) -> None:
    tell("again_and_again", ranks, seed=ranks, at_least=120 * ranks)


@pytest.mark.parametrize("ranks", [6])
def test_there_and_back_is_the_identity(ranks: int) -> None:
    tell("round_trip", ranks, seed=ranks, at_least=2)


def test_nothing_moves_when_nothing_changes() -> None:
    tell("nothing_to_do", 3)


def test_extra_memory_stays_within_the_limit() -> None:
    tell("extra_memory_is_bounded", 3, at_least=9)


@pytest.mark.parametrize("seed", range(2))
def test_segments_come_back_to_the_last_bit(seed: int) -> None:
    tell("segments_there_and_back", 4, seed=seed, at_least=8)


def test_an_applications_own_data_travels_with_the_arrays() -> None:
    tell("own_data", 4)


@pytest.mark.parametrize("ranks", [3])
def test_bad_input_on_one_rank_is_the_same_error_on_all(ranks: int) -> None:
    tell("bad_input", ranks)


def test_ranks_that_declare_different_arrays_are_told_apart() -> None:
    tell("one_rank_declares_more", 3)


def test_out_of_memory_on_one_rank_leaves_the_job_at_its_old_size() -> None:
    tell("out_of_memory", 2)


def test_memory_that_runs_out_behind_the_first_agreement_is_agreed_on_too() -> None:
    tell("no_room_for_what_arrives", 3)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_cannot_be_read_from_a_neighbour_goes_by_message(seed: int) -> None:
    tell("a_neighbours_memory_out_of_reach", 3, seed=seed)


def test_who_leaves_and_cannot_write_sends_a_message_after_all() -> None:
    tell("who_leaves_cannot_write", 3, at_least=2)


@pytest.mark.parametrize("ranks", [3])
def test_a_worker_that_fails_keeps_nobody_waiting(ranks: int) -> None:
    tell("a_worker_fails", ranks, at_least=2 * ranks)


def test_who_gives_up_is_not_written_to_where_other_things_lie() -> None:
    tell("given_up_while_written_to", 2)


@pytest.mark.parametrize("recipe", [ONE_HOST, LABELS], ids=lambda r: r.name)
def test_a_message_on_its_way_arrives_while_ranks_agree(recipe: Recipe) -> None:
    tell("sends_go_on_while_ranks_agree", 3, at_least=18, recipe=recipe)


@pytest.mark.parametrize("ranks", [2, 4])
def test_memory_of_earlier_moves_is_right_for_the_next(ranks: int) -> None:
    tell("to_and_fro", ranks, at_least=24 * ranks)


def test_open_files_and_kept_memory_stay_flat() -> None:
    tell("nothing_piles_up", 3)


@pytest.mark.parametrize("ranks", [1, 2])
def test_spawned_and_merged_ranks_take_part(ranks: int) -> None:
    tell("across_a_spawned_communicator", ranks, seed=ranks, at_least=25, recipe=ONE_HOST)
