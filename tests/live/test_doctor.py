"""`dq doctor` on this machine: every trial is really made, and its verdict is the one for MPICH."""

from __future__ import annotations

import json

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


def test_doctor_finds_that_jobs_grow_and_shrink_here(live: Live) -> None:
    said = json.loads(live.dq("doctor", "--json", timeout_s=240))
    found = {check["name"]: check for check in said["checks"]}
    # What killed programs of others have left in /dev/shm is no matter of this test.
    wrong = [name for name, check in found.items() if not check["ok"] and name != "shared memory"]
    assert not wrong, [found[name]["detail"] for name in wrong]
    assert said["resize"] == "join"
    by_exec, by_fork = (found[f"ranks, {how}"] for how in ("executed", "from a starter"))
    assert by_fork["start_s"] > 0 and by_exec["start_s"] > 0
    assert "an idle starter keeps" in by_fork["detail"]
