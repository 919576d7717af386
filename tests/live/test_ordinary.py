"""Programs as people write them, each resized a few times: right, or refused with the line.

`python -m harness.ordinary PROGRAM...` runs some of them by hand and prints a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from harness.ordinary import (
    PROGRAMS,
    RESIZES,
    Outcome,
    Run,
    marked_lines,
    plain_faults,
    programs,
    resized_runs,
)

pytestmark = [pytest.mark.live, pytest.mark.mpi]

SLOW = pytest.mark.slow  # minutes each; `pytest -m slow tests/live/test_ordinary.py`
GROUP = 30  # programs that share a cluster
# Resizes of each program: growth and shrink, from one rank and from more. By hand (SLOW) ten.
FEW = 4
FEW_REFUSED = 6
# Of the folder "right". A refusal with a line is as good.
MAY_BE_REFUSED = {
    "file_next",  # a text file that is iterated over hides its position
    "setup_reduced",  # allgather before the loop: an entry for each rank there was
}
# Of the folder "refused". Only a shrink loses something of these; growth must not be refused, but
# from one rank, where what each rank has for itself looks like what all have alike.
SHRINKS_ONLY = {
    "rank_histogram", "rank_lists", "rank_maximum", "rank_sums", "rank_sums_in_dict",
    "rank_sums_in_object", "sums_by_default_argument",
    "sums_by_imported_function", "sums_by_imported_method", "sums_by_other_name",
    "sums_in_lists_of_dict",
}  # fmt: skip
BY_CHANCE = "is the same on all of them now"  # whole numbers may be, and tell nothing then
# Right is as good here as a refusal: whether these can be carried is a question of effort.
MAY_BE_RIGHT = {
    "callable_in_value", "comprehension_loop", "database", "duplicated", "environment_state",
    "islands", "kept_rank", "lambda_list", "last_rank_once", "leader_rotates", "messages_to_next",
    "next_loop", "pairwise", "split_setup", "summed_loop", "thread_counter", "zipped_sample",
}  # fmt: skip

# Whole sentences: from the line on; which rank tells it is left open.
TOLD = {
    "rank_sums": [
        "9: mine is added up by each rank for itself, and a rank that leaves would take its part"
        " with it: add it up over all ranks in the iteration, or say with rs.local_state what"
        " becomes of it",
    ],
    "rate_by_size": [
        "8: optimizer.lr is computed from the number of ranks before the loop: ask for the size in"
        " every iteration, or compute it in @rs.on_resize",
    ],
    "generator_loader": [
        "14: batches cannot be copied to a rank that joins (loader is a generator: use a list, a"
        " range or an iterator)",
    ],
}


def names_line(run: Run) -> bool:
    """Whether every refusal, or the failure, names one of the marked lines; any, without marks."""
    places = [re.escape(place) for place in marked_lines(run.program)]
    wanted = re.compile(rf"\b(?:{'|'.join(places) or re.escape(run.program.name) + r':[0-9]+'})\b")
    return all(wanted.search(text) for text in run.messages)


def fault_of_right(run: Run) -> bool:
    """Whether a program that must be right under every resize was not, or was not resized."""
    if run.outcome is Outcome.REFUSED and run.program.stem in MAY_BE_REFUSED:
        return not names_line(run)
    return run.outcome is not Outcome.RIGHT or len(run.sizes) < FEW


def fault_of_refused(run: Run) -> bool:
    """Whether a program that cannot be resized was wrong, or refused without its line."""
    name = run.program.stem
    if run.outcome is Outcome.RIGHT:
        return name not in MAY_BE_RIGHT
    if run.outcome not in (Outcome.REFUSED, Outcome.FAILED):
        return True
    growths = [r for r in run.refusals if r.next_size > r.size > 1 and BY_CHANCE not in r.why]
    if name in SHRINKS_ONLY and growths:
        return True
    return not names_line(run)


def require(runs: Iterable[Run], is_fault: Callable[[Run], bool]) -> None:
    """Fail if some are faulty, with a line for each and what happened to it."""
    if faults := [f"{run.line}\n{run.story}" for run in runs if is_fault(run)]:
        pytest.fail("\n".join(faults), pytrace=False)


def groups(kind: str) -> list[list[Path]]:
    found = programs(kind)
    return [found[at : at + GROUP] for at in range(0, len(found), GROUP)]


@pytest.mark.parametrize("group", groups("right"), ids=lambda group: group[0].stem)
def test_ordinary_programs_are_right_under_resizes(group: list[Path]) -> None:
    require(resized_runs(group, resizes=FEW), fault_of_right)


def test_what_a_rank_has_for_itself_hinders_no_resize() -> None:
    require(resized_runs(programs("scratch"), resizes=FEW), fault_of_right)


@pytest.mark.parametrize(("ranks", "every"), [(1, 3), (2, 1)])
def test_what_cannot_be_right_is_refused_with_its_line(ranks: int, every: int) -> None:
    chosen = programs("refused")[::every]
    require(resized_runs(chosen, resizes=FEW_REFUSED, ranks=ranks), fault_of_refused)


@SLOW
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_that_cannot_be_right_is_refused_under_ten_resizes(ranks: int) -> None:
    require(resized_runs(programs("refused"), resizes=RESIZES, ranks=ranks), fault_of_refused)


@pytest.mark.parametrize("name", TOLD)
def test_a_refusal_says_what_and_where_and_what_to_do(name: str) -> None:
    program = PROGRAMS / "refused" / f"{name}.py"
    (run,) = resized_runs([program], seed=2, resizes=FEW, ranks=3)
    told = {re.sub(r"^rank [0-9]+: ", "", why) for why in run.messages}
    assert run.outcome in (Outcome.REFUSED, Outcome.FAILED), run.story
    assert told and told <= {f"{program}:{words}" for words in TOLD[name]}, run.story


@SLOW
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", ["right", "scratch"])
def test_other_resizes_change_nothing(kind: str, seed: int) -> None:
    runs = resized_runs(programs(kind), seed=seed, resizes=RESIZES, ranks=1 + seed % 3)
    require(runs, fault_of_right)


@SLOW
@pytest.mark.parametrize(
    "group",
    [group for kind in ("right", "scratch", "refused") for group in groups(kind)],
    ids=lambda group: f"{group[0].parent.name}-{group[0].stem}",
)
def test_the_programs_are_right_without_a_server(group: list[Path]) -> None:
    assert not [fault for program in group for fault in plain_faults(program)]


@pytest.mark.full
@pytest.mark.parametrize("kind", [pytest.param("right", marks=SLOW), "scratch"])
def test_the_programs_are_right_where_a_resize_is_a_restart(kind: str) -> None:
    """Refused by what the copy cannot have, at most; never wrong."""
    chosen = programs(kind) if kind == "right" else programs(kind)[::3]
    runs = list(resized_runs(chosen, resizes=FEW, ranks=2, growth="restart"))
    faults = [run.line for run in runs if run.outcome not in (Outcome.RIGHT, Outcome.REFUSED)]
    assert not faults, "\n".join(faults)


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert len(programs("right")) >= 36
    assert len(programs("scratch")) >= 20
    assert all(marked_lines(path) for path in programs("refused") if path.stem not in MAY_BE_RIGHT)
    assert {path.stem for path in programs("refused")} >= SHRINKS_ONLY | MAY_BE_RIGHT
