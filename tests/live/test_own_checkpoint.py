"""A program with a checkpoint of its own: killed, started again, and resized all the while."""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from dq_client import client
from harness.bench import until
from harness.ordinary import CONFIG, FOR_TESTS, PROGRAMS, SIZES, is_right

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.slow]

KILLED_AFTER = (12, 30)  # steps


@pytest.mark.parametrize(("seed", "ranks"), [(1, 1), (2, 3)])
def test_a_killed_program_goes_on_from_its_own_checkpoint(
    tmp_path: Path, seed: int, ranks: int
) -> None:
    config, checkpoint = tmp_path / "config.toml", tmp_path / "state.json"
    config.write_text(CONFIG.format(seed=seed, most=30, growth="join"))

    def is_there(wanted: int) -> bool:
        return checkpoint.exists() and json.loads(checkpoint.read_text())["step"] >= wanted

    with client.cluster(local=16, config=config) as cluster:
        job = cluster.submit(
            [sys.executable, PROGRAMS / "_own_checkpoint.py"],
            n=ranks, sizes=SIZES, env={**FOR_TESTS, "OWN_CHECKPOINT": str(checkpoint)}, retry=5,
        )  # fmt: skip
        for wanted in KILLED_AFTER:
            until(partial(is_there, wanted), "the program stands still")
            os.kill(json.loads(checkpoint.read_text())["pid"], signal.SIGKILL)
        job.wait()
        assert job.state == "done" and is_right(job.output()), (job.output(), job.why())
        story = [event["code"] for event in job.why()["story"]]
        assert "resize_committed" in story, story
