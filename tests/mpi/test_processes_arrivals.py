"""The meeting of a job and its new ranks, and the lines to the process manager, without MPI."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from harness.commands import HANG_S
from resize_lib.processes.hydra import arrivals, pmi
from resize_lib.processes.hydra.arrivals import JOIN_VARIABLE, Arrivals, report
from resize_lib.processes.interface import SpawnError


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The process manager's end of PMI_FD."""
    ours, rank = socket.socketpair()
    monkeypatch.setenv("PMI_FD", str(rank.fileno()))
    monkeypatch.setattr(pmi, "_unanswered", 0)
    ours.settimeout(5)
    with ours, rank:
        yield ours


@pytest.fixture
def awaited(manager: socket.socket) -> Iterator[Arrivals]:
    found = Arrivals(["n02", "n03"])
    yield found
    found.cancel()


def address_of(awaited: Arrivals) -> str:
    name, _, value = awaited.environment().partition("=")
    assert name == JOIN_VARIABLE
    return value


def call(awaited: Arrivals, data: bytes) -> socket.socket:
    host, port, _ = address_of(awaited).split(":")
    caller = socket.create_connection((host, int(port)), timeout=HANG_S)
    caller.sendall(data)
    return caller


def new_rank(awaited: Arrivals) -> tuple[threading.Thread, list[str | None]]:
    """A first new rank in a thread; `answer[0]` is what it was told."""
    answer: list[str | None] = []
    address = address_of(awaited)
    thread = threading.Thread(target=lambda: answer.append(report(address)), daemon=True)
    thread.start()
    return thread, answer


def test_new_ranks_are_told_the_port_when_the_job_takes_them_in(
    awaited: Arrivals, manager: socket.socket
) -> None:
    assert not awaited.ready()
    manager.sendall(b"cmd=spawn_result rc=0\n")
    thread, answer = new_rank(awaited)
    awaited.wait()
    assert awaited.ready()
    awaited.take_in("tag#0$port$")
    thread.join(60)
    assert answer == ["tag#0$port$"]


@pytest.mark.parametrize("arrived", [True, False])
def test_cancelled_new_ranks_leave_whether_they_have_arrived_or_not(
    awaited: Arrivals, arrived: bool
) -> None:
    thread, answer = new_rank(awaited)
    if arrived:
        awaited.wait()
    awaited.cancel()
    thread.join(60)
    assert answer == [None]


def test_new_rank_leaves_when_the_job_is_gone(awaited: Arrivals) -> None:
    address = address_of(awaited)
    awaited.cancel()
    assert report(address) is None


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"\n", b"0" * 500, b""])
def test_strangers_are_dropped_and_keep_nobody_out(awaited: Arrivals, noise: bytes) -> None:
    with call(awaited, noise) as stranger:
        thread, answer = new_rank(awaited)
        awaited.wait()
        awaited.take_in("port")
        thread.join(60)
        assert answer == ["port"]
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(100) == b""


def test_token_may_come_in_pieces(awaited: Arrivals) -> None:
    token = address_of(awaited).split(":")[2].encode()
    with call(awaited, token[:5]) as caller:
        assert not awaited.ready()
        caller.sendall(token[5:] + b"\n")
        awaited.wait()
        awaited.take_in("port")
        assert json.loads(caller.recv(100)) == {"port": "port"}


def test_refusal_by_the_process_manager_is_an_error(
    awaited: Arrivals, manager: socket.socket
) -> None:
    manager.sendall(b"cmd=spawn_result rc=-1 errmsg=no_such_host\n")
    with pytest.raises(SpawnError, match="no_such_host"):
        awaited.wait()


def test_new_ranks_that_started_elsewhere_tell_the_job_why(awaited: Arrivals) -> None:
    reason = "cannot start a process on n99: no such node"
    thread = threading.Thread(target=report, args=(address_of(awaited), reason), daemon=True)
    thread.start()
    with pytest.raises(SpawnError, match="no such node"):
        awaited.wait()
    thread.join(60)
    assert not thread.is_alive()


def test_endless_reason_is_cut_off(awaited: Arrivals) -> None:
    token = address_of(awaited).split(":")[2].encode()
    with call(awaited, token + b" " + b"x" * 5000) as stranger:
        assert not awaited.ready()  # accepts
        assert not awaited.ready()  # reads as much as it will
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""


def test_waiting_has_a_limit(awaited: Arrivals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "ARRIVAL_LIMIT_S", 0.05)
    with pytest.raises(SpawnError, match="2 new ranks are not ready"):
        awaited.wait()


def test_unknown_interface_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DQ_INTERFACE", "nosuch0")
    with pytest.raises(SpawnError, match="nosuch0"):
        Arrivals(["n02"])


def test_spawn_request_is_written_as_hydra_reads_it(manager: socket.socket) -> None:
    pmi.ask_to_spawn(["python", "app.py", "a b"], 2, {"hosts": "n02:2", "wdir": "/tmp"})
    assert manager.recv(1000).decode().splitlines() == [
        "mcmd=spawn",
        "nprocs=2",
        "execname=python",
        "totspawns=1",
        "spawnssofar=1",
        "argcnt=2",
        "arg1=app.py",
        "arg2=a b",
        "preput_num=0",
        "info_num=2",
        "info_key_0=hosts",
        "info_val_0=n02:2",
        "info_key_1=wdir",
        "info_val_1=/tmp",
        "endcmd",
    ]


def test_argument_with_a_line_break_is_refused_and_nothing_is_sent(manager: socket.socket) -> None:
    with pytest.raises(SpawnError, match="line break"):
        pmi.ask_to_spawn(["python", "-c", "a\nendcmd"], 1, {})
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(1)


def test_finalize_waits_for_the_answer_of_a_spawn_and_for_its_own(manager: socket.socket) -> None:
    pmi.ask_to_spawn(["true"], 1, {})
    manager.recv(1000)
    manager.sendall(b"cmd=spawn_result rc=0\ncmd=finalize_ack rc=0\ncmd=not_ours\n")
    pmi.finalize()
    assert manager.recv(100) == b"cmd=finalize\n"
    assert os.read(pmi.descriptor(), 100) == b"cmd=not_ours\n"


def test_finalize_does_not_fail_when_the_process_manager_is_gone(manager: socket.socket) -> None:
    manager.close()
    pmi.finalize()
