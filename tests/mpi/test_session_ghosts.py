"""Ghosts after resizes, wherever in an iteration the program exchanges them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.ranks import OWN, run_job

pytestmark = pytest.mark.mpi
PROGRAM = Path(__file__).with_name("programs") / "session_ghosts.py"


def test_ghosts_are_filled_after_every_resize() -> None:
    ended = run_job(OWN, 2, [str(PROGRAM), "9", *OWN.hosts], limit_s=200)
    assert ended.code == 0, ended.err
    *told, last = [json.loads(line) for line in ended.out.splitlines()]
    assert [report["committed"] for report in told] == list(range(1, 10))
    assert last["turns"] >= 9
