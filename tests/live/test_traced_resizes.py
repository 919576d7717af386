"""What ranks call when others were lost, and at a restart, is what resize_protocol's tables say.

The other tables are compared in tests/mpi/test_resize_trace.py, where no server is needed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.deploy.cluster import local_cluster
from harness.bench import Bench
from harness.resize_calls import first_difference
from harness.resize_protocol import LOSS, RESTART, Role, Table
from tests.live.own_ranks import OwnRanks

pytestmark = [pytest.mark.live, pytest.mark.mpi]
HERE = Path(__file__).parent


class Traced(OwnRanks):
    """A cluster whose jobs grow in one way: join or restart."""

    def __init__(self, root: Path, growth: str) -> None:
        config = root / "config.toml"
        config.write_text(f'[launch]\ngrowth = "{growth}"\n[scheduler]\nresize = "none"\n')
        self.memory, self.stop, self.traces = set(), root / "stop", root / "traces"
        self.traces.mkdir()
        Bench.__init__(self, root, local_cluster(4), options=["--config", str(config)])

    def traced(self, kind: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for f in self.traces.iterdir() for line in f.open()]
        return [line for line in found if line["kind"] == kind]


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Traced]:
    made = Traced(tmp_path, request.param)
    yield made
    assert made.close() == 0, "processes were left behind"


def check(table: Table, role: Role, line: dict[str, Any]) -> None:
    events = [tuple(event) for event in line["events"]]
    difference = first_difference(table, role, events, line["known"])
    assert not difference, (role, difference, [name for _, name, _ in events])


def as_one(table: Table) -> Table:
    """Where no rank leaves the survivors' communicator is the next one."""
    return tuple(replace(stage, calls=stage.calls.replace("newjob.", "rest.")) for stage in table)


@pytest.mark.parametrize("bench", ["join"], indirect=True)
@pytest.mark.parametrize(("sizes", "left"), [([1, 2, 3, 4], 3), ([1, 2, 4], 2)])
def test_ranks_that_have_lost_others(bench: Traced, sizes: list[int | str], left: int) -> None:
    deaths = bench.home.root / "deaths"
    deaths.mkdir()
    job = bench.run(
        sys.executable, HERE / "traced.py", bench.traces, HERE / "losing.py", deaths, 9,
        "1:4:compute:kill", initial=4, kind="malleable", sizes=m.Sizes(sizes),
        protect=m.Protect("partner", every_points=1),
    )  # fmt: skip
    view = bench.ended(job)
    assert (view["state"], view["restarts"]) == ("done", 0), view["reason"]
    lines = bench.traced("loss")
    assert [line["stays"] for line in lines].count(True) == left
    assert len(lines) == 3, "each rank that lives"
    for line in lines:
        table = as_one(LOSS) if left == 3 else LOSS
        check(table, Role.CONTINUING if line["stays"] else Role.RETIRING, line)


@pytest.mark.parametrize("bench", ["restart"], indirect=True)
def test_ranks_that_make_way(bench: Traced) -> None:
    bench.stop.unlink(missing_ok=True)
    job = bench.run(
        sys.executable, HERE / "traced.py", bench.traces, HERE / "staying.py", bench.stop, 0,
        initial=2, kind="malleable", sizes=m.Sizes([1, 2, 4]),
    )  # fmt: skip
    bench.settled(job, 2)
    bench.ask(m.Resize(job, 4))
    bench.settled(job, 4)
    bench.stop.touch()
    assert bench.ended(job)["state"] == "done"
    lines = bench.traced("restart")
    assert len(lines) == 2
    for line in lines:
        check(RESTART, Role.RETIRING, line)
