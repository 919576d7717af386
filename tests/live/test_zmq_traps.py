"""The ways in which ZeroMQ is not what it seems. Each trap as it is in libzmq 4.3 and pyzmq 27, and
that ours does not fall into it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.errors import Refused
from dq_server.live import access, connection_limits
from tests.live.serving import Serving, submission

Guarded = tuple[ThreadAuthenticator, access.Access, zmq.Socket[bytes]]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    server = Serving(tmp_path)
    yield server
    server.close()


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def guarded(served: Serving, context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Guarded]:
    """A second socket like the server's own: (authenticator, access, router)."""
    admitted = access.Access(served.home.keys)
    authenticator = access.secure(context, admitted)
    router = access.bind_router(context, authenticator, admitted, "tcp://127.0.0.1:*")
    yield authenticator, admitted, router
    if authenticator.is_alive():
        authenticator.stop()


def stranger() -> keys.KeyPair:
    return keys.KeyPair(*(half.decode() for half in zmq.curve_keypair()))


def gets_in(
    context: zmq.Context[zmq.Socket[bytes]],
    router: zmq.Socket[bytes],
    server: keys.KeyPair,
    pair: keys.KeyPair | None = None,
) -> bool:
    """Whether a message under this key, or a stranger's, reaches a socket."""
    pair, dealer = pair or stranger(), context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.curve_serverkey = server.public.encode()
    dealer.curve_publickey, dealer.curve_secretkey = pair.public.encode(), pair.secret.encode()
    dealer.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
    dealer.send(b"let me in")
    reached = bool(router.poll(700))
    dealer.close()
    return reached


@pytest.mark.parametrize(("enforce", "reached"), [(0, True), (1, False)])
def test_without_a_handler_curve_accepts_any_key_unless_told_otherwise(
    context: zmq.Context[zmq.Socket[bytes]], enforce: int, reached: bool
) -> None:
    server = stranger()
    router = context.socket(zmq.ROUTER)
    router.curve_server = True
    router.curve_publickey, router.curve_secretkey = server.public.encode(), server.secret.encode()
    router.setsockopt(zmq.ZAP_DOMAIN, b"dq")
    router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, enforce)
    router.bind("tcp://127.0.0.1:*")
    assert gets_in(context, router, server) is reached


def test_ours_fails_closed_when_the_authenticator_is_gone(
    context: zmq.Context[zmq.Socket[bytes]], guarded: Guarded
) -> None:
    """Its thread dies after the bind: from then on nobody is let in, not even good keys."""
    authenticator, admitted, router = guarded
    assert not gets_in(context, router, admitted.server)
    authenticator.stop()
    assert not gets_in(context, router, admitted.server)


@pytest.mark.parametrize(("domain", "reached"), [("*", False), ("dq", True)])
def test_a_policy_for_all_domains_does_not_cover_a_named_one(
    context: zmq.Context[zmq.Socket[bytes]], tmp_path: Path, domain: str, reached: bool
) -> None:
    """configure_curve(domain="*") keeps a good key out of a named domain, whatever it says."""
    _, secret = zmq.auth.create_certificates(tmp_path, "good")
    halves = [half.decode() for half in zmq.auth.load_certificate(secret) if half is not None]
    pair = keys.KeyPair(*halves)
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve(domain=domain, location=tmp_path)
    server = stranger()
    router = context.socket(zmq.ROUTER)
    router.curve_server = True
    router.curve_publickey, router.curve_secretkey = server.public.encode(), server.secret.encode()
    router.setsockopt(zmq.ZAP_DOMAIN, b"dq")
    router.bind("tcp://127.0.0.1:*")
    found = gets_in(context, router, server, pair)
    authenticator.stop()
    assert found is reached


def test_create_certificates_is_not_used_for_its_modes(tmp_path: Path) -> None:
    """pyzmq writes the secret key for all to read; ours is made private before it has content."""
    _, secret = zmq.auth.create_certificates(tmp_path, "theirs")
    keys.ensure(tmp_path / "ours")
    assert Path(secret).stat().st_mode & 0o044
    assert not (tmp_path / "ours" / "server.key").stat().st_mode & 0o077


def who_takes_over(
    served: Serving, context: zmq.Context[zmq.Socket[bytes]], name: bytes
) -> zmq.Socket[bytes]:
    """A user's connection of this name, to be had once the server sees that its owner left."""
    for _ in range(20):
        thief = served.raw(context, keys.load(served.home.keys, "user"), name=name)
        thief.send(served_request("mine"))
        if thief.poll(500):
            thief.recv()
            return thief
        thief.close()
    raise AssertionError("the name cannot be had: where is the trap?")


def test_an_identity_is_no_authority(
    served: Serving, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    """A user who takes over the name of an agent's connection does not speak for the agent, and is
    not sent the agent's orders."""
    agent = served.agent("a", "n1")
    name = served.front.server.agents.by_name["a"].identity
    agent.close()
    served.open.remove(agent)
    thief = who_takes_over(served, context, name)
    thief.send(codec.encode(m.Request("theirs", m.Heartbeat(0))))
    assert b"may not Heartbeat" in thief.recv()
    # It has spoken since, so the server knows whose name it is now. A thief that keeps silent:
    thief.close()
    agent = served.agent("a", "n1")
    name = served.front.server.agents.by_name["a"].identity
    agent.close()
    served.open.remove(agent)
    silent = served.raw(context, keys.load(served.home.keys, "user"), name=name)
    time.sleep(0.5)
    served.role("user").call(submission("r1"))
    assert served.state.jobs[1].instance == 1, "started, and its agent told"
    assert not silent.poll(500)


def test_two_peers_of_one_name_the_first_keeps_it(
    served: Serving, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    pair = keys.load(served.home.keys, "user")
    peers = []
    for _ in range(2):
        peer = context.socket(zmq.DEALER)
        peer.linger = 0
        peer.setsockopt(zmq.IDENTITY, b"same")
        peer.curve_serverkey = served.public.encode()
        peer.curve_publickey, peer.curve_secretkey = pair.public.encode(), pair.secret.encode()
        peer.connect(served.front.address)
        peers.append(peer)
        time.sleep(0.2)
    encoded = served_request("first")
    for peer in peers:
        peer.send(encoded)
    assert peers[0].poll(2000)
    assert not peers[1].poll(300)


class Proxy:
    """Carries one TCP connection to the server, no faster than told."""

    def __init__(self, address: str, bytes_per_s: float) -> None:
        host, port = address.removeprefix("tcp://").split(":")
        self.target, self.rate, self.carried = (host, int(port)), bytes_per_s, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self) -> Proxy:
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def _serve(self) -> None:
        client, _ = self.listener.accept()
        server = socket.create_connection(self.target)
        back = threading.Thread(target=self._carry, args=(server, client, 1e12), daemon=True)
        back.start()
        self._carry(client, server, self.rate)

    def _carry(self, source: socket.socket, target: socket.socket, rate: float) -> None:
        try:
            while piece := source.recv(1 << 16):
                target.sendall(piece)
                if source.getsockname()[1] == int(self.address.rpartition(":")[2]):
                    self.carried += len(piece)
                time.sleep(len(piece) / rate)
        except OSError:
            pass
        for end in (source, target):
            end.close()

    def __exit__(self, *_: object) -> None:
        self.listener.close()


def served_request(request_id: str) -> bytes:
    return codec.encode(m.Request(request_id, m.StatusQuery()))


@pytest.mark.parametrize("bytes_per_s", [4e6, 1e12], ids=["slow", "fast"])
def test_an_endless_message_is_cut_off(
    served: Serving,
    context: zmq.Context[zmq.Socket[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    bytes_per_s: float,
) -> None:
    """MAXMSGSIZE is per frame: a message of ever more tiny frames never shows at the application.
    Ours cuts the connection, on the way if it takes long, and serves others."""
    monkeypatch.setattr(connection_limits, "SILENT_BYTES_MAX", 1 << 20)
    honest = served.role("user")
    honest.call(m.StatusQuery())
    with Proxy(served.front.address, bytes_per_s) as proxy:
        flood = served.raw(context, keys.load(served.home.keys, "user"), through=proxy.address)
        monitor = flood.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        for _ in range(400_000):
            flood.send(b"x", zmq.SNDMORE)
        flood.send(b"the end")
        assert monitor.poll(20_000), "the connection stands"
        assert honest.call(m.StatusQuery())
        if bytes_per_s < 1e7:
            assert proxy.carried < 12e6, "cut on the way: all of it is 16 MB"
        flood.disable_monitor()
        monitor.close(0)
        flood.close(0)


def test_a_message_of_several_frames_is_nothing_of_ours(
    served: Serving, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    peer = served.raw(context, keys.load(served.home.keys, "user"))
    peer.send_multipart([served_request("a"), b"more"])
    assert not peer.poll(300)
    peer.close(0)


def test_what_cannot_be_sent_is_known(guarded: Guarded) -> None:
    """ROUTER_MANDATORY: an unknown peer is an error, not silence."""
    _, _, router = guarded
    with pytest.raises(zmq.ZMQError) as refused:
        router.send_multipart([b"nobody", b"x"], zmq.NOBLOCK)
    assert refused.value.errno == zmq.EHOSTUNREACH


def test_a_slow_reader_does_not_fill_the_server(
    served: Serving, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for ever more large answers and reads none: they are dropped, not queued."""
    monkeypatch.setattr(connection_limits, "LARGE_BYTES", 1000)
    monkeypatch.setattr(connection_limits, "UNREAD_BYTES_MAX", 1 << 20)
    big = m.Submit("big", "job", ["true", *["x" * 30_000] * 16], "/", hold=True)
    served.agent("a", "n1")
    served.role("user").call(big)
    pair = keys.load(served.home.keys, "user")
    slow = served.raw(context, pair)
    for n in range(400):
        slow.send(codec.encode(m.Request(f"r{n}", m.JobQuery(1))))
    time.sleep(1.0)
    assert served.role("user").call(m.StatusQuery())
    answers = 0
    while slow.poll(500):
        answers += len(slow.recv()) > 1000
    assert 0 < answers < 400, "what was not read in time was dropped"
    slow.close(0)


def test_a_refused_client_is_told(served: Serving) -> None:
    """libzmq tries again for ever without a word."""
    with pytest.raises(Refused, match="refuses this key"):
        served.connect(stranger()).call(m.StatusQuery(), 10.0)
