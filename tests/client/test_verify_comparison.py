"""The comparison of records, without any run: which difference is the first, and what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dq_client.verify import outputs
from dq_client.verify.binding import place_of
from dq_client.verify.comparison import Comparison, compare
from dq_client.verify.records import Named, Record
from dq_client.verify.runs import SeenResize, resizes_of

ITERATIONS, RESIZED = 6, 3  # the job grows from one rank to two after iteration 2
TOLERANCE = 1e-9


def number(value: float) -> list[Any]:
    """The fingerprint of a floating-point number."""
    return ["number", [value], repr(value)]


def exact(value: object) -> list[Any]:
    """The fingerprint of anything else."""
    return [repr(value), [], repr(value)]


class Making:
    """A folder of records as the ranks write them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: dict[int, list[dict[str, Any]]] = {}
        folder.mkdir()

    def add(
        self, rank: int, size: int, iteration: int, *, resized: bool = False, **values: list[Any]
    ) -> None:
        """What a rank has at the end of an iteration; names with a capital are declared values."""
        lines = self._lines.setdefault(rank, [{"rank": rank, "size": size}])
        kinds = {name: "value" if name[0].isupper() else "variable" for name in values}
        lines.append(
            {
                "at": [[0, iteration]], "resized": resized, "rank": rank, "size": size,
                "new": {n: [n, "p.py" if k == "variable" else "", "", k] for n, k in kinds.items()},
                "set": values, "gone": [],
            }
        )  # fmt: skip

    def record(self) -> Record:
        for rank, lines in self._lines.items():
            text = "".join(f"{json.dumps(line)}\n" for line in lines)
            (self._folder / f"{rank}.jsonl").write_text(text)
        return Record(self._folder)


def plain(folder: Path, size: int, **values: Any) -> Record:
    """A plain run; each value is a function of iteration, rank and size."""
    made = Making(folder / f"plain{size}")
    for iteration in range(ITERATIONS):
        for rank in range(size):
            now = {name: value(iteration, rank, size) for name, value in values.items()}
            made.add(rank, size, iteration, **now)
    return made.record()


def resized(folder: Path, **values: Any) -> Record:
    """One that grows; each value is a function of iteration, rank, size and, in a rank that has
    joined, of `joined`: True."""
    made = Making(folder / "resized")
    for iteration in range(ITERATIONS):
        size = 1 if iteration < RESIZED else 2
        for rank in range(size):
            now = {n: v(iteration, rank, size, joined=rank > 0) for n, v in values.items()}
            made.add(rank, size, iteration, **now)
        if iteration == RESIZED - 1:
            for rank in range(2):
                now = {n: v(iteration, rank, 2, joined=rank > 0) for n, v in values.items()}
                made.add(rank, 2, iteration, resized=True, **now)
    return made.record()


def compared(folder: Path, **values: Any) -> Comparison:
    """Two plain runs beside a resized one; a value that takes `joined` may differ there."""
    alone = {
        name: lambda i, r, s, v=value: v(i, r, s, joined=False) for name, value in values.items()
    }
    runs = [plain(folder, size, **alone) for size in (1, 2)]
    return compare(runs, resized(folder, **values), TOLERANCE)


def test_nothing_differs(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        Total=lambda i, r, s, joined: number(0.1 * i),
        count=lambda i, r, s, joined: exact(i),
    )
    assert (found.first, found.causes, found.left_out) == (None, [], [])
    assert found.compared == {"value": 1, "variable": 1}


def test_a_variable_of_a_rank_that_joins_is_the_cause(tmp_path: Path) -> None:
    """Its value is seen first in the total, two iterations later."""
    found = compared(
        tmp_path,
        Total=lambda i, r, s, joined: exact(i if s == 1 or i < 5 or not joined else -1),
        count=lambda i, r, s, joined: exact(0 if joined else i),
    )
    assert found.first is not None
    assert (found.first.named.name, found.first.iteration) == ("count", RESIZED)
    assert (found.first.plain, found.first.resized, found.first.rank) == ("2", "0", 1)


def test_a_variable_that_all_ranks_have_alike_counts_also_where_nothing_follows(
    tmp_path: Path,
) -> None:
    """Rank 0 may leave next, and then the result is that of the rank that has joined."""
    found = compared(
        tmp_path,
        Total=lambda i, r, s, joined: exact(i),
        best=lambda i, r, s, joined: exact(0 if joined else i),
    )
    assert found.first is not None
    assert (found.first.named.name, found.first.iteration) == ("best", RESIZED)


def test_a_variable_that_is_right_again_after_an_iteration_is_a_temporary(tmp_path: Path) -> None:
    made = Making(tmp_path / "resized")
    for i in range(ITERATIONS):
        for rank in range(1 if i < RESIZED else 2):
            wrong = -1 if i == 5 else i
            made.add(rank, 1 if i < RESIZED else 2, i, Total=exact(wrong), scratch=exact(i))
        if i == RESIZED - 1:
            made.add(0, 2, i, resized=True, Total=exact(i), scratch=exact(i))
            made.add(1, 2, i, resized=True, Total=exact(i), scratch=exact(0))
    same = {"Total": lambda i, r, s: exact(i), "scratch": lambda i, r, s: exact(i)}
    found = compare([plain(tmp_path, size, **same) for size in (1, 2)], made.record(), TOLERANCE)
    assert found.first is not None
    assert (found.first.named.name, found.first.iteration) == ("Total", 5)


@pytest.mark.parametrize(
    "value",
    [
        lambda i, r, s, joined: number(i + 0.37 * s),  # a clock, or what depends on the size
        lambda i, r, s, joined: exact(100 // s),
    ],
    ids=["clock", "share"],
)
def test_what_plain_runs_have_otherwise_is_not_compared(tmp_path: Path, value: Any) -> None:
    def wrong(i: int, r: int, s: int, *, joined: bool) -> Any:
        return value(i, r, s, joined=joined) if not joined else exact("other")

    found = compared(tmp_path, took=wrong)
    assert (found.first, found.causes, found.compared) == (None, [], {})


def test_a_declared_value_that_plain_runs_have_otherwise_is_named(tmp_path: Path) -> None:
    found = compared(tmp_path, Share=lambda i, r, s, joined: exact(100 // s))
    assert found.first is None
    (left,) = found.left_out
    assert (left.name, left.iteration, left.texts) == ("Share", 0, ("100", "50"))


@pytest.mark.parametrize(("error", "differs"), [(1e-12, False), (1e-7, True)])
def test_rounding_is_no_difference(tmp_path: Path, error: float, differs: bool) -> None:
    found = compared(
        tmp_path, Total=lambda i, r, s, joined: number((i + 1.0) * (1 + error * joined))
    )
    assert (found.first is not None) is differs


def test_plain_runs_that_round_more_allow_more(tmp_path: Path) -> None:
    """They differ by 1e-8: so may the resized one, and by some more."""
    found = compared(
        tmp_path,
        Total=lambda i, r, s, joined: number((i + 1.0) * (1 + 1e-8 * s + 2e-7 * joined)),
    )
    assert found.first is None


def test_what_ranks_add_up_for_themselves_is_compared_in_sum(tmp_path: Path) -> None:
    """The one that leaves takes its part along."""
    made = Making(tmp_path / "resized")
    for i in range(ITERATIONS):
        size = 2 if i < RESIZED else 1
        for rank in range(size):
            made.add(rank, size, i, mine=number((i + 1.0) / 2 if i < RESIZED else i - 0.5))
        if i == RESIZED - 1:
            made.add(0, 1, i, resized=True, mine=number((i + 1.0) / 2))
    runs = [plain(tmp_path, size, mine=lambda i, r, s: number((i + 1.0) / s)) for size in (2, 1)]
    found = compare(runs, made.record(), TOLERANCE)
    assert found.first is None
    cause = found.cause_of(ITERATIONS)
    assert cause is not None and (cause.named.name, cause.iteration) == ("mine", RESIZED)
    assert (cause.plain, cause.resized) == ("3 over all ranks", "1.5 over all ranks")


def test_moments_that_a_failed_run_has_left_half_are_not_compared(tmp_path: Path) -> None:
    made = Making(tmp_path / "resized")
    made.add(0, 2, 0, Total=exact(0))
    found = compare([plain(tmp_path, 1, Total=lambda i, r, s: exact(9))], made.record(), TOLERANCE)
    assert found.first is None


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    made = Making(tmp_path / "run")
    made.add(0, 1, 0, Total=exact(0))
    made.record()
    (file,) = (tmp_path / "run").glob("*.jsonl")
    file.write_text(f'{file.read_text()}{{"at": [[0, 1')
    assert len(Record(tmp_path / "run").iterations) == 1


# --- output, lines, resizes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain_texts", "text", "first"),
    [
        (["a 1.0\nb", "a 1.0\nb"], "b\na 1.0000000000001", None),
        (["sum 5", "sum 5"], "sum 6", (1, "sum 5", "sum 6")),
        (["sum 5", "sum 5"], "", (1, "sum 5", "")),
        (["sum 5", "sum 5"], "sum 5\nmore", (2, "", "more")),
        (["took 1.5\nsum 5", "took 1.7\nsum 5"], "took 9\nsum 5", None),
        (["r 0\nsum 5", "r 0\nr 1\nsum 5"], "r 0\nr 2\nsum 4", (2, "sum 5", "sum 4")),
        (["n 1000000000001"] * 2, "n 1000000000002", (1, "n 1000000000001", "n 1000000000002")),
    ],
)
def test_output(plain_texts: list[str], text: str, first: tuple[int, str, str] | None) -> None:
    assert outputs.first_difference(plain_texts, text, TOLERANCE) == first


PROGRAM = """\
import numpy as np
np.random.seed(3)
count = 0
u = rs.array("u", 10)
rs.keep(losses=losses, rng=rng)
def step(self):
    count = 1
    self.t += 1
count += 1
"""


@pytest.mark.parametrize(
    ("name", "function", "kind", "line"),
    [
        ("count", "", "variable", 9),
        ("count", "step", "variable", 7),
        ("solver.t", "", "variable", 8),
        ("u", "", "part", 4),
        ("rng", "", "value", 5),
        ("numpy.random", "generator", "variable", 2),
        ("nothing", "", "variable", None),
    ],
)
def test_where_a_variable_is_bound(
    tmp_path: Path, name: str, function: str, kind: str, line: int | None
) -> None:
    program = tmp_path / "p.py"
    program.write_text(PROGRAM)
    file = str(program) if kind == "variable" and function != "generator" else ""
    assert place_of(Named(name, file, function, kind), str(program)) == (str(program), line)


def test_a_program_that_cannot_be_read_has_no_lines(tmp_path: Path) -> None:
    missing = str(tmp_path / "p.py")
    assert place_of(Named("x", missing, "", "variable"), "") == (missing, None)


def test_resizes_are_read_from_a_story() -> None:
    drawn = {"code": "drawn_resize", "figures": {"point": 3, "size": 1, "next_size": 2}}
    story = [
        {"code": "started", "figures": {}},
        drawn,
        {"code": "resize_committed", "figures": {}},
        {**drawn, "figures": {"point": 7, "size": 2, "next_size": 1}},
        {"code": "resize_aborted", "figures": {"why": "p.py:1: it cannot be"}},
        {"code": "resize_committed", "figures": {}},
    ]
    assert resizes_of(story) == [SeenResize(3, 1, 2), SeenResize(7, 2, 1, "p.py:1: it cannot be")]
