"""A pool of Grid Engine's nodes: from zero and back, taken back, and when something fails."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.gridengine.minige import QUEUE, MiniGridEngine
from tests.gridengine.on_grid_engine import OnGridEngine
from tests.on_batch_system import Fake, killed_while_it_asks

pytestmark = [pytest.mark.live, pytest.mark.gridengine]

GROWING = ("--", "python", "-m", "tests.live.growing", "--n", 96)
SHORT = ("--kind", "rigid", "--walltime", "5m", "--", "true")
KILLS = 10


def growing(iterations: int, seconds: float = 0.2) -> tuple[object, ...]:
    """A job that gains from every processor, and checks its product."""
    return *GROWING, "--iterations", iterations, "--seconds", seconds


def test_from_zero_nodes_to_four_and_back(on: OnGridEngine) -> None:
    on.up_with("idle_s = 30")  # longer than the job measures before it takes more
    assert on.nodes() == {} and on.held() == []
    job = on.submit("-n", 1, "--sizes", "1,2,4", *growing(240, 0.4))
    on.until(lambda: 4 in on.sizes(job), 120)
    assert on.sizes(job) == [1, 2, 4]
    assert sorted(on.held()) == [1, 2, 3, 4]
    on.ended_well(job)
    on.until(lambda: not on.held() and not on.pool()["tickets"], 120)
    assert set(on.nodes().values()) == {"left"}
    whats = [d["what"] for d in on.pool()["decisions"]]
    assert (whats.count("ask"), whats.count("drain"), whats.count("give")) == (4, 4, 4)


def test_nodes_that_are_needed_together_are_one_array_and_their_end_is_known(
    on: OnGridEngine,
) -> None:
    table = f'queue = "{QUEUE}"\ntime = "0:30:00"\nparallel_environment = "smp"'
    on.up_with("idle_s = 60\nshape = { processors = 2 }", table)
    job = on.submit("-n", 4, "--kind", "rigid", "--walltime", "5m", "--", "sleep", 5)
    on.wait(job, lambda j: j["state"] == "running")
    assert len({task.partition(".")[0] for task in on.system.tasks()}) == 1
    assert sorted(on.held()) == [1, 2]
    on.until(lambda: all(t["until_s"] for t in on.pool()["tickets"]))
    left_s = [t["until_s"] - time.time() for t in on.pool()["tickets"]]
    assert all(0 < s <= 1800 for s in left_s), left_s
    on.dq("kill", job)
    on.dq("down")
    assert on.held() == []


def test_qdel_of_a_holder_is_a_drain_and_the_job_goes_on(on: OnGridEngine) -> None:
    on.up_with("grow = false")
    job = on.submit("-n", 3, "--sizes", "2,3", *growing(300, 0.3))
    on.wait(job, lambda j: j["remap_points"] > 5)
    task, ticket = max(on.system.tasks().items(), key=lambda held: held[1])
    (node,) = (t["node"] for t in on.pool()["tickets"] if t["ticket"] == ticket)
    before = len(on.journal())
    on.system.run("qdel", task)
    on.until(lambda: on.nodes()[node] == "left")
    story = on.journal()[before:]
    kinds = [kind for _, kind, _ in story]
    assert "NodeLost" not in kinds, kinds
    assert any(kind == "NodeLeft" and body["node"] == node for _, kind, body in story)
    assert {"TicketRevoked", "DrainRequested"} & set(kinds)
    on.ended_well(job, 150)
    view = on.job(job)
    assert view["restarts"] == 0 and 2 in on.sizes(job)


def test_a_server_that_is_killed_while_it_asks_loses_and_leaks_nothing(
    on: OnGridEngine, tmp_path: Path
) -> None:
    """Ten times."""
    killed_while_it_asks(on, Fake(on, tmp_path, "qsub"), "qsub", on.held, KILLS)
    assert max(d["ticket"] for d in on.pool()["decisions"]) > 3


@pytest.mark.parametrize(
    ("pool", "table", "said"),
    [
        ("", 'queue = "nowhere.q"', 'Grid Engine: qconf: No cluster queue or queue instance matches'
         ' the phrase "nowhere.q"'),
        ("shape = { processors = 2 }", "", "needs [grid_engine] parallel_environment; Grid Engine"
         " has smp"),
        ("shape = { processors = 2 }", 'parallel_environment = "mpi"',
         "parallel_environment = 'mpi': Grid Engine has smp"),
    ],
)  # fmt: skip
def test_what_grid_engine_does_not_have_is_said_at_once(
    on: OnGridEngine, pool: str, table: str, said: str
) -> None:
    done = on.run("up", "--cluster", on.file(pool, table), "--detach")
    assert done.returncode != 0 and said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not on.home.server_file.exists()


def test_without_grid_engine_one_line_says_so(on: OnGridEngine, tmp_path: Path) -> None:
    for name in ("timeout", "env", "dq", "python"):
        where = next(p for d in on.env["PATH"].split(":") if (p := Path(d, name)).exists())
        (tmp_path / name).symlink_to(where)
    on.env["PATH"] = str(tmp_path)
    done = on.run("up", "--cluster", on.file(), "--detach")
    assert done.returncode != 0
    assert done.stderr.strip().endswith("there is no qconf here: is Grid Engine installed?")


def test_a_refusal_is_told_and_tried_again(on: OnGridEngine, tmp_path: Path) -> None:
    qsub = Fake(on, tmp_path, "qsub")
    qsub.does(
        'echo "Unable to run job: job rejected: no such project" >&2; echo Exiting. >&2; exit 1'
    )
    on.up_with("retry_s = 1\nretry_max_s = 1")
    job = on.submit("-n", 1, *SHORT)
    on.until(lambda: "Grid Engine: qsub: Unable to run job" in on.why(job))
    qsub.gone()
    assert on.wait_end(job)["state"] == "done"


def test_an_agent_that_cannot_start_says_why(on: OnGridEngine, tmp_path: Path) -> None:
    on.up_with("retry_s = 1", f'queue = "{QUEUE}"\npython = "{tmp_path}/nowhere"')
    job = on.submit("-n", 1, *SHORT)
    on.until(lambda: "No such file or directory" in on.why(job))
    on.dq("kill", job)


def test_a_holder_in_error_state_is_removed(on: OnGridEngine, tmp_path: Path) -> None:
    Fake(on, tmp_path, "qsub").does(
        "words=()\n"
        'for word in "$@"; do [ "$word" = / ] && word=/nowhere; words+=("$word"); done\n'
        'qsub "${words[@]}"'
    )
    on.up_with("retry_s = 600")
    job = on.submit("-n", 1, *SHORT)
    on.until(lambda: "is in state Eqw" in on.why(job))
    on.until(lambda: not on.held())
    on.dq("kill", job)


def test_while_the_master_is_away_jobs_go_on_and_nothing_grows(
    on: OnGridEngine, grid_engine: MiniGridEngine
) -> None:
    on.up_with("", f'queue = "{QUEUE}"\nanswer_within_s = 3')
    first = on.submit("-n", 1, "--kind", "rigid", "--", "sleep", 12)
    on.wait(first, lambda j: j["state"] == "running")
    grid_engine.stop_master()
    try:
        second = on.submit("-n", 1, *SHORT)
        on.until(lambda: "Grid Engine: q" in on.why(second))
        assert on.wait_end(first)["state"] == "done"
    finally:
        grid_engine.start_master()
    assert on.wait_end(second)["state"] == "done"
    assert "lost" not in json.dumps(on.nodes())
