"""Programs put together at random, resized at random: each is right, or refused with its line."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.drawn_programs import KINDS, LOOPS, SCOPES, Recipe
from harness.ordinary import Outcome, Run, is_right, plain_faults, resized_runs

pytestmark = [pytest.mark.live, pytest.mark.mpi]

AT_ONCE = 12  # programs of an example, which share a cluster
REFUSED_MAX = 3  # of them: where the source does not say what becomes of a value

recipes = st.builds(
    Recipe,
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=3, max_size=8, unique=True).map(tuple),
    scope=st.sampled_from(sorted(SCOPES)),
    loop=st.sampled_from(sorted(LOOPS)),
    iterations=st.sampled_from([30, 40, 50]),
)


def is_fault(run: Run) -> bool:
    """Whether it was neither right and resized, nor refused with its line at every refusal."""
    if run.outcome is Outcome.REFUSED:
        return not all(f"{run.program.name}:" in message for message in run.messages)
    return run.outcome is not Outcome.RIGHT or len(run.sizes) < 5


# One cluster of programs, other ones each time. No shrinking: fewer kinds by hand, from the source
# that is printed.
@settings(max_examples=1, phases=[Phase.generate])
@given(
    programs=st.lists(recipes, min_size=AT_ONCE, max_size=AT_ONCE),
    seed=st.integers(0, 2**31),
    ranks=st.integers(1, 3),
)
def test_drawn_programs_are_right_under_drawn_resizes(
    programs: list[Recipe], seed: int, ranks: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"drawn{at:02}.py") for at in range(len(programs))]
        for path, recipe in zip(paths, programs, strict=True):
            path.write_text(recipe.source)
        runs = list(resized_runs(paths, seed=seed, ranks=ranks))
        refused = [run for run in runs if run.outcome is Outcome.REFUSED]
        too_many = refused if len(refused) > REFUSED_MAX else []
        faults = [
            f"{run.line}\n{run.story}\n{run.program.read_text()}"
            for run in runs
            if is_fault(run) or run in too_many
        ]
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("loop", LOOPS)
def test_every_program_can_be_put_together(scope: str, loop: str) -> None:
    for first in range(0, len(KINDS), 10):
        kinds = tuple(sorted(KINDS)[first : first + 10])
        source = Recipe(kinds, scope, loop, 30).source
        compile(source, scope, "exec")
        last = source.rstrip().rpartition("\n")[2]
        assert last in ("main()", "Simulation().run()") or "expected" in last


def test_a_program_without_resizes_prints_what_is_expected(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(Recipe(tuple(KINDS), "object", "nested", 30).source)
    assert plain_faults(program, [1]) == []
    assert not is_right("sum 1 expected 2\n")
