"""A fixture that writes logs in the Standard Workload Format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.sim.logs import WriteLog


@pytest.fixture
def log(tmp_path: Path) -> WriteLog:
    def write(*lines: str, name: str = "log.swf") -> Path:
        path = tmp_path / name
        body = "; Version: 2.2\n;\n" + "\n".join(lines) + "\n"
        path.write_bytes(gzip.compress(body.encode()) if name.endswith(".gz") else body.encode())
        return path

    return write
