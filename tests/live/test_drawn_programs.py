"""Programs put together at random, resized at random: each must be right."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.drawn_programs import KINDS, LOOPS, SCOPES, Recipe
from harness.examples import examples
from harness.ordinary import Outcome, Run, is_right, plain_faults, resized_runs

pytestmark = [pytest.mark.live, pytest.mark.mpi]

AT_ONCE = 12  # programs of an example, which share a cluster

recipes = st.builds(
    Recipe,
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=3, max_size=8, unique=True).map(tuple),
    scope=st.sampled_from(sorted(SCOPES)),
    loop=st.sampled_from(sorted(LOOPS)),
    iterations=st.sampled_from([30, 40, 50]),
)


def is_fault(recipe: Recipe, run: Run) -> bool:
    """Whether it was not right, or not resized; of some programs a resize may be refused."""
    if run.outcome is Outcome.REFUSED:
        allowed = []
        if recipe.loop == "zip, data first":
            allowed.append("in the midst of this zip")
        if "buffer" in recipe.kinds and recipe.scope == "closure":
            allowed.append("advance is computed from the number of ranks before the loop")
        return not all(any(words in text for words in allowed) for text in run.messages)
    return run.outcome is not Outcome.RIGHT or len(run.sizes) < 5


# No shrinking: each example is a cluster. Fewer kinds by hand, from the source that is printed.
@settings(max_examples=examples(20), phases=[Phase.generate])
@given(
    programs=st.lists(recipes, min_size=AT_ONCE, max_size=AT_ONCE),
    seed=st.integers(0, 2**31),
    ranks=st.integers(1, 3),
)
def test_drawn_programs_are_right_under_drawn_resizes(
    programs: list[Recipe], seed: int, ranks: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = {Path(folder, f"drawn{at:02}.py"): each for at, each in enumerate(programs)}
        for path, recipe in written.items():
            path.write_text(recipe.source)
        faults = [
            f"{run.line}\n{run.story}\n{run.program.read_text()}"
            for run in resized_runs(list(written), seed=seed, ranks=ranks)
            if is_fault(written[run.program], run)
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
