"""What ranks call in real resizes is what the tables say (harness/resize_protocol.py)."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import OWN, run_job
from harness.resize_calls import failed, first_difference
from harness.resize_protocol import EXPAND, REGRID, SHRINK, Role, Table

pytestmark = pytest.mark.mpi
Line = dict[str, Any]
STEPS = {"EXPAND": EXPAND, "COMPLETE": EXPAND, "SHRINK": SHRINK, "REGRID": REGRID}
LEAVING = {3: [0, 2]}  # ranks, by the number of the resize


def traced(which: str, folder: Path, ranks: int = 2) -> dict[int, list[Line]]:
    """What each rank has called, by the number of the resize."""
    program = ["-m", "tests.mpi.programs.resize_trace", str(folder), which, *OWN.hosts]
    ended = run_job(OWN, ranks, program)
    assert ended.code == 0, ended.err
    found: dict[int, list[Line]] = defaultdict(list)
    for file in folder.iterdir():
        for line in map(json.loads, file.read_text().splitlines()):
            found[line.get("id", 1)].append(line)
    return found


def role_of(number: int, line: Line) -> Role:
    if line["role"] == "new":
        return Role.JOINING
    return Role.RETIRING if line["rank"] in LEAVING.get(number, ()) else Role.CONTINUING


def check(line: Line, table: Table, role: Role) -> None:
    events = [tuple(event) for event in line["events"]]
    difference = first_difference(table, role, events, line["known"])
    assert not difference, (role, difference, [name for _, name, _ in events])


def test_each_kind_of_resize_calls_what_its_table_says(tmp_path: Path) -> None:
    found = traced("right", tmp_path)
    assert [len(found[number]) for number in (1, 2, 3, 4)] == [4, 4, 4, 3]
    for number, lines in found.items():
        step = next(line["step"] for line in lines if "step" in line)
        for line in lines:
            check(line, STEPS[step], role_of(number, line))


@pytest.mark.parametrize(
    ("which", "stage", "ranks"),
    [
        ("pack", "declare", 4), ("unpack", "move", 4), ("no room", "make room", 4),
        ("copy", "move", 4), ("cannot join", "arrive", 4), ("variables", "variables", 4),
        ("refused", "start", 2),
    ],
)  # fmt: skip
def test_an_expansion_that_fails_is_undone_as_its_table_says(
    which: str, stage: str, ranks: int, tmp_path: Path
) -> None:
    (lines,) = traced(which, tmp_path).values()
    assert len(lines) == ranks
    for line in lines:
        check(line, failed(EXPAND, stage), role_of(1, line))


@pytest.mark.parametrize(
    ("which", "stage", "table"),
    [
        ("shrink: lost sum", "variables", SHRINK), ("shrink: pack", "declare", SHRINK),
        ("shrink: unpack", "move", SHRINK), ("regrid: unpack", "move", REGRID),
    ],
)  # fmt: skip
def test_a_smaller_or_another_grid_that_fails_leaves_all_as_it_was(
    which: str, stage: str, table: Table, tmp_path: Path
) -> None:
    (lines,) = traced(which, tmp_path, 4).values()
    assert len(lines) == 4
    for line in lines:
        leaves = line["step"] == "SHRINK" and line["rank"] in (0, 2)
        check(line, failed(table, stage), Role.RETIRING if leaves else Role.CONTINUING)
