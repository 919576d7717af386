"""History across runs, with real ranks: the second run of an application, after a restart of the
server, goes straight to the sweet spot that the first one found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.live import Job, Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


def _knows_the_spot(job: Job) -> bool:
    """Whether a job has compared its largest size with the one before, after its two samples."""
    last = job["sizes"][-1] if job["sizes"] else None
    largest = last is not None and last["processors"] == 4 and last["iterations"] > 4
    return job["sweet_spot"] is not None or largest


def test_the_next_run_does_not_probe_again(live: Live, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "[scheduler]\nsamples = 2\ndiscard = 0\nthreshold = 0.0\nsettle = 0\n"
        'sweet_spot = "thesis"\n'
        "history_tolerance = 100\n"  # whatever this machine does between the two runs
    )
    live.up(4, "--config", config)
    stop = tmp_path / "stop"
    words = ("-n", 1, "--sizes", "1,2,4", "--app-name", "grow-320", "--", "python", "-m",
             "tests.live.growing", "--n", 320, "--iterations", 1000, "--seconds", 0.4,
             "--stop", stop)  # fmt: skip

    def ended_when(job: int, done: Callable[[Job], bool]) -> Job:
        live.wait(job, done, timeout_s=300)
        stop.touch()
        end = live.wait_end(job)
        stop.unlink()
        assert end["state"] == "done"
        return end

    first = ended_when(live.submit(*words), _knows_the_spot)
    # On a busy machine 4 may turn out slower than 2: then it goes back there.
    spot = first["sizes"][-1]["processors"]
    assert [s["processors"] for s in first["sizes"]] == [1, 2, 4, 2][: 3 if spot == 4 else 4]
    live.dq("down")
    live.up(4, "--config", config)
    job = live.submit(*words)
    second = ended_when(job, lambda view: view["processors"] == spot)
    assert second["application"] == "grow-320"
    assert [s["processors"] for s in second["sizes"]] == [1, spot]
    story = json.loads(live.dq("why", job, "--json"))["story"]
    known = next(d for d in story if d["code"] == "history_known")
    assert known["figures"]["runs"] == 1
