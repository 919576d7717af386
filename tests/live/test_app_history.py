"""History across runs, with real ranks: the second run of an application, after a restart of the
server, goes straight to the sweet spot that the first one found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


def test_the_next_run_does_not_probe_again(live: Live, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "[scheduler]\nsamples = 2\ndiscard = 0\nthreshold = 0.0\nsettle = 0\n"
        'sweet_spot = "thesis"\n'
        "history_tolerance = 100\n"  # whatever this machine does between the two runs
    )
    live.up(4, "--config", config)
    words = ("-n", 1, "--sizes", "1,2,4", "--app-name", "grow-320", "--", "python", "-m",
             "tests.live.growing", "--n", 320, "--iterations", 50, "--seconds", 0.4)  # fmt: skip
    first = live.wait_end(live.submit(*words))
    assert first["state"] == "done"
    # On a busy machine 4 may turn out slower than 2: then it goes back there.
    spot = first["sizes"][-1]["processors"]
    assert [s["processors"] for s in first["sizes"]] == [1, 2, 4, 2][: 3 if spot == 4 else 4]
    live.dq("down")
    live.up(4, "--config", config)
    job = live.submit(*words)
    second = live.wait_end(job)
    assert second["application"] == "grow-320"
    assert [s["processors"] for s in second["sizes"]] == [1, spot]
    story = json.loads(live.dq("why", job, "--json"))["story"]
    known = next(d for d in story if d["code"] == "history_known")
    assert known["figures"]["runs"] == 1
