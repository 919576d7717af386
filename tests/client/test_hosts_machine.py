"""What is checked of a machine before it is offered: each problem is named, with what to do."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from dq_client import __version__
from dq_client.base.messages import PROTOCOL
from dq_client.base.network import Network
from dq_client.deploy.ssh import machine
from dq_client.deploy.ssh.machine import Check, examine
from dq_client.node.mpi_probe import ProbeResult


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Check]:
    """A question that this machine passes."""
    monkeypatch.setattr(
        machine, "probe_library", lambda _limit_s: ProbeResult("", True, "MPICH 5.0.2", "")
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Check(
            name="n1",
            protocol=PROTOCOL,
            version=__version__,
            now_s=time.time(),
            address=f"tcp://127.0.0.1:{server.getsockname()[1]}",
            library="MPICH 5.0.2",
            home=str(tmp_path / "home"),
            processors=1,
            network=Network(interface="lo"),
        )


def problem(check: Check, **changed: object) -> str:
    (found,) = examine(msgspec.structs.replace(check, **changed)).problems
    return found


def test_a_good_machine(check: Check) -> None:
    facts = examine(check)
    assert (facts.problems, facts.notes) == ([], [])
    assert (facts.processors, facts.interface, facts.address) == (1, "lo", "127.0.0.1")
    assert Path(facts.home).stat().st_mode & 0o777 == 0o700


def test_problems(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "install the same version on both" in problem(check, version="0.0.1")
    assert "install the same version on both" in problem(check, protocol=PROTOCOL + 1)
    assert "no interface eth7 here" in problem(check, network=Network(interface="eth7"))
    assert "is not reached from lo (127.0.0.1)" in problem(check, address="tcp://127.0.0.1:1")
    assert "3600 s behind the server's" in problem(check, now_s=time.time() + 3600)
    assert "MPI is MPICH 5.0.2 there, Open MPI 5.0.8 here" in problem(
        check, library="Open MPI 5.0.8"
    )
    assert "has 32 MiB free" in _with_shared_memory(check, monkeypatch, mib=32)
    (tmp_path / "file").touch()
    assert "cannot be used as DQ_HOME" in problem(check, home=str(tmp_path / "file" / "home"))
    (tmp_path / "open").mkdir(mode=0o755)
    assert "is open to others" in problem(check, home=str(tmp_path / "open"))


def _with_shared_memory(check: Check, patch: pytest.MonkeyPatch, mib: int) -> str:
    found = SimpleNamespace(f_bavail=mib << 8, f_frsize=4096)
    with patch.context() as patched:
        patched.setattr(os, "statvfs", lambda _path: found)
        return problem(check, processors=4)


def test_an_mpi_that_cannot_be_loaded(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ProbeResult("MPI library", False, "libmpi.so.12: cannot open shared object file", "")
    monkeypatch.setattr(machine, "probe_library", lambda _limit_s: broken)
    assert "MPI cannot be loaded: libmpi.so.12" in problem(check)


def test_files_go_to_a_local_disk(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "network_kind", lambda _folder: "nfs4")
    facts = examine(check)
    try:
        assert facts.home.startswith(f"/var/tmp/dq-{os.getuid()}-")
        assert "lies on a network file system (nfs4)" in facts.notes[0]
        assert facts.problems == []
        # One that the cluster file names is used wherever it lies.
        assert examine(msgspec.structs.replace(check, own_home=True)).home == check.home
    finally:
        Path(facts.home).rmdir()
