"""Arrays in a GPU's memory: refused where there is none; moved through the host (by a stand-in)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.ranks import OWN, run_job
from resize_lib import DescriptorError
from resize_lib.declared.device import Device
from tests.mpi.programs.device_arrays import install

PROGRAM = Path(__file__).with_name("programs") / "device_arrays.py"


@pytest.mark.mpi
def test_parts_come_back_to_the_device_after_every_resize() -> None:
    ended = run_job(OWN, 2, [str(PROGRAM), *OWN.hosts])
    assert ended.code == 0, ended.err
    last = json.loads(ended.out.splitlines()[-1])
    grid = sum(10 * i + j for i in range(9) for j in range(7))
    assert last["sum"] == grid + 63 * last["turns"]
    assert last["to"] > 3
    assert last["from"] > 3


def test_without_cupy_or_a_gpu_the_declaration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DescriptorError, match="'u': device 'cupy' needs cupy and a GPU"):
        Device("u", "cupy")
    monkeypatch.delitem(sys.modules, "cupy")
    install(0)
    try:
        with pytest.raises(DescriptorError, match="there is none"):
            Device("u", "cupy")
    finally:
        del sys.modules["cupy"]
    with pytest.raises(DescriptorError, match="known: 'cpu', 'cupy'"):
        Device("u", "gpu")
