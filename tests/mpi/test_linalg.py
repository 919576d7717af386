"""The kernels with real ranks, on every grid shape of every number of ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.ranks import ONE_HOST, one_node, run_job

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).with_name("programs")
SIZES = [1, 2, 6]


def check(story: str, ranks: int, *, seed: int = 0, env: dict[str, str] | None = None) -> None:
    program = [str(PROGRAMS / "kernels.py"), story, str(seed)]
    ended = run_job(one_node(ranks), ranks, program, env=env)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out.splitlines()[-1])
    assert result["failures"] == []
    assert result["checked"] >= ranks


@pytest.mark.parametrize("ranks", SIZES)
def test_lu_has_the_pivots_and_factors_of_lapack(ranks: int) -> None:
    check("lu_like_lapack", ranks, seed=ranks)


@pytest.mark.parametrize("ranks", [1, 4])
def test_lu_of_every_type_of_numbers(ranks: int) -> None:
    check("lu_of_every_type", ranks)


@pytest.mark.parametrize("ranks", [1, 4])
def test_lu_refuses_nan_and_inf_on_every_rank(ranks: int) -> None:
    check("nan_and_inf_in_lu", ranks)


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_product_spreads_nan_and_inf_as_numpys_does(ranks: int) -> None:
    check("nan_and_inf_in_a_product", ranks)


@pytest.mark.parametrize("ranks", [4])
def test_lu_of_a_matrix_of_many_tiles(ranks: int) -> None:
    check("lu_in_tiles", ranks)


@pytest.mark.parametrize("ranks", [4])
def test_lu_beside_a_rank_that_is_late_with_every_panel(ranks: int) -> None:
    check("lu_beside_a_slow_rank", ranks)


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_matrix_is_gone_with_its_last_reference(ranks: int) -> None:
    check("nothing_keeps_the_matrix", ranks)


@pytest.mark.parametrize("ranks", [1, 6])
def test_lu_of_empty_and_tiny_matrices(ranks: int) -> None:
    check("lu_tiny_and_huge_blocks", ranks)


@pytest.mark.parametrize("ranks", [4])
def test_a_singular_matrix_is_reported_on_every_rank(ranks: int) -> None:
    check("singular", ranks)


@pytest.mark.parametrize("ranks", SIZES)
def test_the_product_is_that_of_numpy(ranks: int) -> None:
    check("matmul_like_numpy", ranks, seed=ranks)


@pytest.mark.parametrize("numbers", ["real", "complex"])
@pytest.mark.parametrize("ranks", [1, 6])
def test_checks_pass_right_results_and_catch_one_wrong_element(ranks: int, numbers: str) -> None:
    check("checks_catch_errors", ranks, seed=["real", "complex"].index(numbers))


@pytest.mark.parametrize("ranks", [6])
def test_fill_functions_give_the_same_matrix_on_every_grid(ranks: int) -> None:
    check("fills_agree", ranks)


@pytest.mark.parametrize("ranks", [4])
def test_all_computing_is_paced_and_no_waiting_is(ranks: int) -> None:
    check("paced", ranks)


@pytest.mark.parametrize("ranks", [4])
def test_what_does_not_fit_is_refused_and_changes_nothing(ranks: int) -> None:
    check("refusals", ranks)


@pytest.mark.parametrize("mode", ["auto", "block", "nap"])
@pytest.mark.parametrize("ranks", [2, 5])
def test_ranks_nap_when_they_outnumber_the_processors(ranks: int, mode: str) -> None:
    check("waiting", ranks, env={"DQ_WAIT": mode})


def test_results_do_not_depend_on_the_way_of_waiting() -> None:
    check("lu_like_lapack", 2, seed=11, env={"DQ_WAIT": "nap"})
    check("matmul_like_numpy", 2, seed=11, env={"DQ_WAIT": "nap"})


def test_an_unknown_way_of_waiting_is_one_clear_error() -> None:
    ended = run_job(
        ONE_HOST, 1, [str(PROGRAMS / "kernels.py"), "waiting"], env={"DQ_WAIT": "later"}
    )
    assert ended.code != 0
    assert "DQ_WAIT is 'later'; it must be auto, block or nap" in ended.err


@pytest.mark.parametrize("ranks", [6])
def test_a_grid_has_its_row_and_column_communicators(ranks: int) -> None:
    check("grid_communicators", ranks)
