"""Open MPI's launcher: recognized without starting it, and given what it needs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from dq_client.base.launch import LaunchError
from dq_client.node.mpiexec.command import find_mpiexec, launch_command
from dq_client.node.mpiexec.open_mpi import is_open_mpi


def installed(folder: Path, *names: str) -> str:
    """An installation with these programs; its mpiexec."""
    for name in names:
        (folder / name).touch(mode=0o700)
    return str(folder / "mpiexec")


def test_it_is_told_from_mpich(tmp_path: Path) -> None:
    for folder in ("ompi", "mpich", "both"):
        (tmp_path / folder).mkdir()
    assert is_open_mpi(installed(tmp_path / "ompi", "mpiexec", "ompi_info"))
    assert not is_open_mpi(installed(tmp_path / "mpich", "mpiexec", "hydra_pmi_proxy"))
    # Debian: both are there, and mpiexec is a link to one of them.
    both = tmp_path / "both"
    installed(both, "ompi_info", "mpiexec.openmpi", "mpiexec.mpich", "hydra_pmi_proxy")
    (both / "mpiexec").symlink_to(both / "mpiexec.openmpi")
    assert is_open_mpi(str(both / "mpiexec"))
    (both / "mpiexec").unlink()
    (both / "mpiexec").symlink_to(both / "mpiexec.mpich")
    assert not is_open_mpi(str(both / "mpiexec"))


def test_where_both_are_installed_each_library_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's alternatives let `mpiexec` be Open MPI's beside MPICH's library."""
    installed(tmp_path, "ompi_info", "mpiexec.openmpi", "mpiexec.mpich", "python")
    (tmp_path / "mpiexec").symlink_to(tmp_path / "mpiexec.openmpi")
    monkeypatch.setattr("sys.executable", str(tmp_path / "elsewhere" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_mpiexec() == str(tmp_path / "mpiexec")
    assert find_mpiexec("Open MPI 4.1.4") == str(tmp_path / "mpiexec")
    assert find_mpiexec("MPICH 4.0.2") == str(tmp_path / "mpiexec.mpich")
    (tmp_path / "mpiexec.mpich").unlink()
    assert find_mpiexec("MPICH 4.0.2") == str(tmp_path / "mpiexec")  # and the trial says more


def test_its_command_line_names_one_machine(tmp_path: Path) -> None:
    mpiexec = installed(tmp_path, "mpiexec", "ompi_info")
    placement = [("n01", 2), ("n02", 1)]
    command = partial(
        launch_command, rsh=tmp_path / "rsh", rsh_socket=tmp_path / "socket", mpiexec=mpiexec
    )
    launch = command(["a", "b"], placement)
    assert launch.argv == [mpiexec, "--host", "localhost:3", "-n", "3", "a", "b"]
    assert launch.env["OMP_NUM_THREADS"] == "1"
    with pytest.raises(LaunchError, match="on one machine only"):
        command(["a"], placement, interface="eth0")
