"""Emulated links with real ranks (tests/mpi/programs/emulated_links.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dq_client.node.mpiexec.command import find_mpiexec
from harness.commands import HANG_S

PROGRAM = Path(__file__).parent / "programs" / "emulated_links.py"


@pytest.mark.mpi
def test_messages_take_the_time_of_their_links() -> None:
    done = subprocess.run(
        [find_mpiexec(), "-n", "4", sys.executable, str(PROGRAM)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "UCX_LOG_LEVEL": "error"},
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fine"
