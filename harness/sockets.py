"""Bare ZeroMQ sockets that know a key: what they send and read is up to the caller."""

from __future__ import annotations

import zmq

from dq_client.base.keys import KeyPair


def dealer(
    context: zmq.Context[zmq.Socket[bytes]],
    address: str,
    server_public: str,
    pair: KeyPair,
    *,
    name: bytes = b"",
) -> zmq.Socket[bytes]:
    """A DEALER connected to a server under `pair`; `name`: its ZeroMQ identity."""
    made = context.socket(zmq.DEALER)
    made.linger = 0  # closing must not wait for a server that reads no more
    if name:
        made.setsockopt(zmq.IDENTITY, name)
    made.curve_serverkey = server_public.encode()
    made.curve_publickey, made.curve_secretkey = pair.public.encode(), pair.secret.encode()
    made.connect(address)
    return made
