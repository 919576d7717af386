"""What the parts of a server can do at best on this machine, to measure benchmarks.load by."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq

from dq_server.core.model import events as ev
from dq_server.live.store.journal import event_as_json

BATCH = 50  # events a turn
TURNS = 100
ECHOES = 20_000
WINDOW = 400


def commits(journal_class: Callable[[Path], Any]) -> float:
    """Events a second through the journal, a commit and a flush per batch."""
    with tempfile.TemporaryDirectory(prefix="dq-load-") as root:
        journal = journal_class(Path(root) / "journal.sqlite")
        event = ev.NodeLost("node", "as long as a submission is: " + 500 * "x")
        body = event_as_json(event)
        begin = time.monotonic()
        for turn in range(TURNS):
            for _ in range(BATCH):
                journal.append(float(turn), event, body, [])
            journal._flush = True
            journal.commit()
        took_s = time.monotonic() - begin
        journal.close()
    return TURNS * BATCH / took_s


def echoes() -> float:
    """Round trips a second of a ROUTER that answers as it hears, over CURVE, with one client."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server_public, server_secret = zmq.curve_keypair()
    router = context.socket(zmq.ROUTER)
    router.curve_server, router.curve_secretkey = True, server_secret
    port = router.bind_to_random_port("tcp://127.0.0.1")

    def serve() -> None:
        for _ in range(ECHOES):
            router.send_multipart(router.recv_multipart())

    thread = threading.Thread(target=serve)
    thread.start()
    dealer = context.socket(zmq.DEALER)
    dealer.curve_serverkey = server_public
    dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
    dealer.connect(f"tcp://127.0.0.1:{port}")
    begin = time.monotonic()
    sent = 0
    for received in range(ECHOES):
        while sent < min(ECHOES, received + WINDOW):
            dealer.send(b"x" * 300)
            sent += 1
        dealer.recv()
    took_s = time.monotonic() - begin
    thread.join()
    for socket in (dealer, router):
        socket.close(0)
    context.term()
    return ECHOES / took_s
