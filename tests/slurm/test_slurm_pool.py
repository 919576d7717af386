"""A pool whose nodes are Slurm's: from zero and back, preempted, over the ends of its nodes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.slurm.minislurm import MiniSlurm
from tests.slurm.on_slurm import OnSlurm

# Under control groups, as on most sites, whatever a step leaves behind dies with it.
TRACKING = pytest.mark.parametrize("slurm", ["linuxproc", "cgroup"], indirect=True, scope="module")
pytestmark = [pytest.mark.live, pytest.mark.slurm, TRACKING]

GROWING = ("--", "python", "-m", "tests.live.growing", "--n", 96)


def growing(iterations: int, seconds: float = 0.2) -> tuple[object, ...]:
    """A job that gains from every processor, and checks its product."""
    return *GROWING, "--iterations", iterations, "--seconds", seconds


def test_from_zero_nodes_with_a_job_and_back(on_slurm: OnSlurm) -> None:
    on_slurm.up_with("idle_s = 20")  # longer than the job measures before it takes more
    assert on_slurm.nodes() == {} and on_slurm.holders() == {}
    job = on_slurm.submit("-n", 1, "--sizes", "1,2,4", *growing(120, 0.4))
    states = set(on_slurm.nodes().values())
    assert states and states <= {"asked", "starting", "up"}, "it is asked for at once"

    def grown() -> bool:
        states.update(on_slurm.nodes().values())
        return 4 in on_slurm.sizes(job)

    on_slurm.until(grown)
    assert states <= {"asked", "starting", "up"}
    assert on_slurm.sizes(job) == [1, 2, 4]
    assert sorted(on_slurm.nodes()) == ["n1", "n2", "n3", "n4"]
    assert sorted(on_slurm.holders().values()) == [1, 2, 3, 4]
    on_slurm.ended_well(job)
    on_slurm.until(lambda: not on_slurm.holders() and not on_slurm.pool()["tickets"])
    assert set(on_slurm.nodes().values()) == {"left"}
    whats = [d["what"] for d in on_slurm.pool()["decisions"]]
    assert (whats.count("ask"), whats.count("drain"), whats.count("give")) == (4, 4, 4)
    text = on_slurm.dq("pool")
    assert "need 1 processors; 0 are idle" in text and "idle for 20 s (idle_s = 20)" in text
    (asked,) = [d for d in json.loads(on_slurm.dq("why", job, "--json"))["story"]
                if d["code"] == "pool_for_queue"]  # fmt: skip
    assert asked["what"] == "pool" and asked["figures"]["nodes"] == 1


def test_a_job_larger_than_todays_pool_waits_and_one_larger_than_max_is_refused(
    on_slurm: OnSlurm,
) -> None:
    on_slurm.up_with("min = 1\nidle_s = 600")
    on_slurm.until(lambda: list(on_slurm.nodes().values()) == ["up"])
    for kind in ("malleable", "rigid"):
        done = on_slurm.run("submit", "-n", 5, "--kind", kind, "--", "true")
        assert done.returncode == 4 and "5 processors" in done.stderr and "4" in done.stderr
    job = on_slurm.submit(
        "-n", 3, "--kind", "rigid", "--walltime", "10m", "--", "sh", "-c", "exit 0"
    )
    assert on_slurm.wait_end(job)["state"] == "done"
    assert len(on_slurm.holders()) == 3
    on_slurm.dq("down")
    assert on_slurm.slurm.jobs() == {}


def test_a_preempted_node_is_empty_at_once_and_the_job_goes_on(
    on_slurm: OnSlurm, slurm: MiniSlurm, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"  # a busy machine's times must not shrink it
    config.write_text('[scheduler]\nresize = "none"\n')
    on_slurm.up_with("grow = false", 'time = "30"', "--config", str(config))
    job = on_slurm.submit("-n", 4, "--sizes", "2,3,4", *growing(300, 0.4))
    on_slurm.wait(job, lambda j: j["remap_points"] > 5)
    ticket, before = on_slurm.ticket_of("n2"), len(on_slurm.journal())
    preemptor = slurm.run(
        "sbatch", "--parsable", "--partition=urgent", "--nodelist=n2", "--output=/dev/null",
        "--wrap", "sleep 2",
    )  # fmt: skip
    on_slurm.until(lambda: on_slurm.nodes()["n2"] == "left", 30)
    story = on_slurm.journal()[before:]
    assert any(kind == "NodeLeft" and body["node"] == "n2" for _, kind, body in story)
    # The agent's word that it was told to go, or Slurm's that the node's time ends in 30 s now:
    # whichever comes first. Then it may be gone before it has said so.
    assert any(
        (kind == "DrainRequested" and "told to go" in body["reason"])
        or (kind == "TicketStarted" and body["ticket"] == ticket)
        for _, kind, body in story
    )
    view = on_slurm.job(job)
    assert (view["state"], on_slurm.sizes(job)) == ("running", [4, 3]), on_slurm.dq("why", job)
    assert "n2" not in view["nodes"]
    on_slurm.until(lambda: preemptor not in slurm.run("squeue", "-h", "-o", "%i"), 30)
    view = on_slurm.wait_end(job)
    assert (view["state"], view["nodes"]) == ("done", []), view["reason"]
    assert "restart" not in json.dumps(view["sizes"])
    on_slurm.ended_well(job)


@pytest.mark.parametrize(
    ("protect", "how"), [(("disk",), "disk"), (("partner",), "partner"), ((), "partner")]
)
def test_a_holder_that_is_killed_is_lost_at_once_and_replaced(
    on_slurm: OnSlurm, slurm: MiniSlurm, protect: tuple[str, ...], how: str
) -> None:
    on_slurm.up_with("retry_s = 1", 'time = "30"', "--lost-after", "120")  # not by heartbeats
    job = on_slurm.submit("-n", 2, "--sizes", "2", "--protect", *protect, *growing(60))
    on_slurm.wait(job, lambda j: j["remap_points"] > 5 and j["protection"]["copies"] > 0)
    killed = next(j for j, ticket in on_slurm.holders().items() if ticket == 2)
    slurm.run("scancel", "-s", "KILL", killed)
    on_slurm.until(lambda: "lost" in on_slurm.nodes().values() or len(on_slurm.holders()) == 2)
    on_slurm.until(lambda: 3 in on_slurm.holders().values())
    on_slurm.ended_well(job)
    view = on_slurm.job(job)
    assert (view["restarts"], view["protection"]["how"]) == (1, how)
    assert "from the copy of iteration" in on_slurm.dq("why", job)
    assert set(on_slurm.holders().values()) == {t["ticket"] for t in on_slurm.pool()["tickets"]}


class Shortened:
    """Holders that end after so many seconds: Slurm's own limits are of whole minutes."""

    def __init__(self, on_slurm: OnSlurm, folder: Path, seconds: int) -> None:
        folder.mkdir()
        sbatch = folder / "sbatch"
        sbatch.write_text(
            "#!/bin/bash\n"
            f'PATH=${{PATH#{folder}:}}\njob=$(sbatch "$@") || exit 1\n'
            # Of a job that has not started only the limit counts, in minutes.
            f"(while [ $(squeue -h -j $job -o %t) = PD ]; do sleep .2; done\n"
            f" scontrol update jobid=$job EndTime=now+{seconds}) > /dev/null 2>&1 &\n"
            "echo $job\n"
        )
        sbatch.chmod(0o755)
        on_slurm.env["PATH"] = f"{folder}:{on_slurm.env['PATH']}"


def test_a_job_outlives_each_of_its_nodes(on_slurm: OnSlurm, tmp_path: Path) -> None:
    """Three times as long as they last."""
    life_s = 24
    Shortened(on_slurm, tmp_path / "bin", life_s)
    on_slurm.up_with("idle_s = 5\nstart_s = 3\ngrow = false", 'time = "1"')
    job = on_slurm.submit("-n", 1, "--sizes", "1,2", *growing(460, 0.25))
    begun_s = time.monotonic()
    on_slurm.ended_well(job, 300)
    took_s = time.monotonic() - begun_s
    tickets = max(d["ticket"] for d in on_slurm.pool()["decisions"])
    assert took_s > 3 * life_s and tickets >= 4, (took_s, tickets)
    assert on_slurm.job(job)["restarts"] == 0
