"""`dq doctor`: what killed MPI programs have left in shared memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dq_client.cli.doctor import memory_fact


def test_what_an_ended_program_has_left_is_told(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f"mpich_shm_{ended.pid:x}_0").touch()
    fact = memory_fact(tmp_path)
    assert not fact["ok"]
    assert fact["detail"].endswith(": 1")
    assert f"rm {tmp_path}/mpich_shm_*" in fact["consequence"]


def test_running_programs_and_worlds_of_launchers_are_no_leftovers(tmp_path: Path) -> None:
    for name in (f"mpich_shm_{os.getpid():x}_0", "mpich_shm_7d3aefe2_0", "mpich_shm_zz_0", "other"):
        (tmp_path / name).touch()
    assert memory_fact(tmp_path) == {
        "name": "shared memory",
        "ok": True,
        "detail": f"files of ended MPI programs in {tmp_path}: none",
        "consequence": "",
    }
