"""The resize library's side of DQ_LINK (docs/ranks.md), without MPI."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from resize_lib.processes import link as link_module
from resize_lib.processes.link import LINE_BYTES_MAX, LinkClosed, LinkMark, RankLink, own_link


class Keeper:
    """The other end."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        end.settimeout(5)

    def say(self, **message: Any) -> None:
        self.end.sendall(json.dumps(message).encode() + b"\n")

    def heard(self) -> list[Any]:
        return [json.loads(line) for line in self.end.recv(1 << 16).splitlines()]


@pytest.fixture
def ends() -> Iterator[tuple[RankLink, Keeper]]:
    ours, rank = socket.socketpair()
    with ours, rank:
        yield RankLink(rank), Keeper(ours)


def test_messages_come_whole_and_in_order_however_they_are_cut(
    ends: tuple[RankLink, Keeper],
) -> None:
    link, keeper = ends
    assert link.poll() is None
    keeper.end.sendall(b'{"go":1}\n{"touch":[5]}\n{"can')
    assert link.poll() == {"go": 1}
    assert link.wait(1) == {"touch": [5]}
    assert link.poll() is None
    keeper.end.sendall(b'cel":2}\n')
    assert link.wait() == {"cancel": 2}


def test_waiting_sleeps_until_a_message_comes_or_the_limit(ends: tuple[RankLink, Keeper]) -> None:
    link, keeper = ends
    used_s, began_s = time.process_time(), time.monotonic()
    assert link.wait(0.2) is None
    assert time.process_time() - used_s < (time.monotonic() - began_s) / 2
    threading.Timer(0.1, lambda: keeper.say(go=3)).start()
    assert link.wait(60) == {"go": 3}


def test_word_of_lost_ranks_is_kept_apart_and_ends_a_wait(ends: tuple[RankLink, Keeper]) -> None:
    link, keeper = ends
    threading.Timer(0.1, lambda: keeper.say(lost=3)).start()
    assert link.wait(5) is None
    assert link.poll() is None
    threading.Timer(0.1, lambda: keeper.say(go=1)).start()
    assert link.wait(5) == {"go": 1}, "what is known already ends no wait"
    keeper.say(ready=2)
    assert link.poll_losses() == {"lost": 3}
    assert link.poll_losses() is None
    threading.Timer(0.1, lambda: keeper.say(regroup=3, dead=[1])).start()
    assert link.wait_losses() == {"regroup": 3, "dead": [1]}
    assert link.poll() == {"ready": 2}
    keeper.say(lost=4)
    keeper.end.close()
    assert link.wait_losses() == {"lost": 4}
    assert link.poll_losses() is None
    with pytest.raises(LinkClosed):
        link.wait_losses()


def test_what_was_said_before_the_end_is_still_heard(ends: tuple[RankLink, Keeper]) -> None:
    link, keeper = ends
    keeper.say(go=1)
    keeper.end.close()
    assert link.poll() == {"go": 1}
    for ask in (link.poll, link.wait):
        with pytest.raises(LinkClosed, match="keeper of this rank is gone"):
            ask()
    with pytest.raises(LinkClosed, match="keeper of this rank is gone"):
        link.say(session=True)


@pytest.mark.parametrize(
    "noise", [b"\n", b"hello\n", b"[1]\n", b"\xff\n", b"[" * 50_000 + b"\n", b"1" * 300_000]
)
def test_what_is_no_message_closes_the_link(ends: tuple[RankLink, Keeper], noise: bytes) -> None:
    link, keeper = ends
    keeper.end.settimeout(1)

    def send() -> None:
        with suppress(OSError):  # not all of it is read
            keeper.end.sendall(b'{"a":1}\n' + noise)

    thread = threading.Thread(target=send)
    thread.start()
    assert link.wait(5) == {"a": 1}
    with pytest.raises(LinkClosed, match="the keeper of this rank says"):
        link.wait(5)
    thread.join()


def test_line_without_an_end_takes_no_more_memory_than_the_limit(
    ends: tuple[RankLink, Keeper],
) -> None:
    link, keeper = ends

    def flood() -> None:
        keeper.end.settimeout(1)
        with pytest.raises(OSError, match=r"timed out|pipe|reset"):
            while True:
                keeper.end.sendall(b"x" * 65536)

    thread = threading.Thread(target=flood)
    thread.start()
    with pytest.raises(LinkClosed):
        link.wait(5)
    assert len(link._got) <= 2 * LINE_BYTES_MAX
    thread.join()


def test_long_message_goes_out_whole_though_the_socket_is_full(
    ends: tuple[RankLink, Keeper],
) -> None:
    link, keeper = ends
    words = ["x" * 1000] * 2000
    got = bytearray()

    def read() -> None:
        while not got.endswith(b"\n"):
            time.sleep(0.001)
            got.extend(keeper.end.recv(1 << 16))

    thread = threading.Thread(target=read)
    thread.start()
    link.say(**{"await": 1, "argv": words})
    thread.join(10)
    assert json.loads(got) == {"await": 1, "argv": words}


def test_forked_child_says_nothing_in_the_ranks_name(ends: tuple[RankLink, Keeper]) -> None:
    link, keeper = ends
    mark = LinkMark(link)
    child = os.fork()
    if not child:
        mark.remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    mark.remove()
    mark.remove()
    assert keeper.heard() == [{"session": True}, {"session": False}, {"session": False}]


def test_link_is_taken_from_the_environment_once_and_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, rank = socket.socketpair()
    number = rank.detach()
    os.set_inheritable(number, True)
    monkeypatch.setenv("DQ_LINK", str(number))
    own_link.cache_clear()
    try:
        link = own_link()
        assert link is not None
        assert link is own_link()
        assert link.fileno() == number
        assert "DQ_LINK" not in os.environ
        assert fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        link.say(arrived="")
        assert Keeper(ours).heard() == [{"arrived": ""}]
        link._socket.close()
    finally:
        own_link.cache_clear()
        ours.close()


def test_program_that_no_keeper_started_has_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(link_module.LINK_VARIABLE, raising=False)
    own_link.cache_clear()
    assert own_link() is None
    own_link.cache_clear()


@pytest.mark.parametrize("number", ["999", "x", "-1"])
def test_link_that_was_closed_on_the_way_is_named(
    monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setenv("DQ_LINK", number)
    own_link.cache_clear()
    with pytest.raises(LinkClosed, match=f"DQ_LINK={number} is no socket of a keeper"):
        own_link()
    own_link.cache_clear()
