"""Which backend is chosen, and what of a request is refused before any process is touched.

No MPI is initialised here: the backends themselves import it, so they are looked at in a child.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands import HANG_S
from resize_lib.processes.command import check_command, program_command
from resize_lib.processes.hydra.hosts import grouped, hydra_host_list, requested_order
from resize_lib.processes.interface import SpawnError, check_hosts


def in_child(code: str, **environment: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env={"PATH": "/usr/bin:/bin", **environment},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("'MPICH', (5, 0, 2), True, 'ucx'", ""),
        ("'MPICH', (4, 0, 2), True, 'ucx'", "needs MPICH 5.0.2, and this is 4.0.2"),
        ("'Open MPI', (5, 0, 11), True, 'ucx'", "this program runs on Open MPI 5.0.11"),
        ("'MPICH', (5, 0, 2), False, 'ucx'", "started without them"),
        ("'MPICH', (5, 0, 2), True, 'ofi'", "this program runs on ofi"),
    ],
)
def test_reason_against_resizing_is_in_plain_words(arguments: str, says: str) -> None:
    code = "from resize_lib.processes.choice import reason_against as reason"
    found = in_child(f"{code}; print(reason({arguments}))")
    assert found == "" if says == "" else says in found


@pytest.mark.mpi
def test_program_without_mpiexec_runs_at_its_one_rank_and_says_why() -> None:
    code = """
from resize_lib.processes import ResizeUnsupportedError, choose_backend, expand
backend = choose_backend()
assert backend is choose_backend()
comm = backend.start()
said = []
for ask in (lambda: expand(backend, comm, ["n01"]), lambda: backend.begin_expand(["n01"]),
            lambda: backend.complete_expand(comm), lambda: backend.shrink(comm, {0}),
            backend.leave):
    try:
        ask()
    except ResizeUnsupportedError as error:
        said.append(str(error))
backend.cancel_expand()
print(backend.name, comm.size, backend.can_resize, backend.expand_ready(), len(said))
assert all(backend.why_not in line for line in said)
"""
    assert in_child(code) == "static 1 False False 5"


def test_new_ranks_are_asked_for_host_by_host_and_numbered_as_named() -> None:
    hosts = ["n2", "n1", "n2", "n3", "n1"]
    assert grouped(hosts) == ["n2", "n2", "n1", "n1", "n3"]
    assert requested_order(hosts) == [0, 2, 1, 4, 3]
    assert hydra_host_list(hosts, numbers=False) == "n2:2,n1:2,n3:1"
    assert hydra_host_list(["n1"], numbers=True) == "999.110.49:1"


def test_host_list_speaks_numbers_only_where_dq_rsh_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DQ_RSH_SOCKET", raising=False)
    assert hydra_host_list(["n1"]) == "n1:1"
    monkeypatch.setenv("DQ_RSH_SOCKET", "/somewhere")
    assert hydra_host_list(["n1"]) == "999.110.49:1"


@pytest.mark.parametrize("hosts", [[], [""], ["a,b"], ["a:2"], ["-x"], ["a b"], ["a\nb"]])
def test_impossible_host_names_are_refused(hosts: list[str]) -> None:
    with pytest.raises(SpawnError):
        check_hosts(hosts)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([], "is empty"),
        (["/no/such/program"], "missing or not executable"),
        ([__file__], "missing or not executable"),
        ([sys.executable, "missing.py", "a"], "script to spawn is missing"),
        ([sys.executable, "-O", "-X", "dev", "missing.py"], "script to spawn is missing"),
    ],
)
def test_command_that_cannot_start_is_refused(
    tmp_path: Path, command: list[str], says: str
) -> None:
    with pytest.raises(SpawnError, match=says):
        check_command(command, str(tmp_path))


@pytest.mark.parametrize(
    "arguments", [["-m", "missing"], ["-c", "pass"], ["-mmissing"], ["here.py", "missing.py"], []]
)
def test_command_that_may_start_is_left_to_the_interpreter(
    tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "here.py").touch()
    check_command([sys.executable, *arguments], str(tmp_path))


def test_own_command_keeps_interpreter_flags() -> None:
    code = "from resize_lib.processes.command import program_command as p; print(p()[1:3])"
    found = subprocess.run(
        [sys.executable, "-O", "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    assert found.stdout.strip() == "['-O', '-c']"
    assert program_command()[0] == sys.executable
