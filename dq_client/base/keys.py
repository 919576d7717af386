"""CURVE key pairs: one per principal, and one per job instance made from the server's secret.

A key file is readable by its owner only, in a folder that only its owner enters; a key with looser
permissions is refused.
A job's key pair is its token: the server computes it (nothing to store), hands the secret to the
application through its environment, and recognises the application by the public half.
"""

from __future__ import annotations

import os
from pathlib import Path

import zmq
from msgspec import Struct
from zmq.utils import z85

from dq_client.base import opened
from dq_client.base.errors import UsageError
from dq_client.base.home import write_private

KEY_BYTES_MAX = 1000
PRINCIPALS = ("server", "agent", "user", "viewer", "standby")


class KeyPair(Struct, frozen=True):
    """Both halves in Z85 text, as ZeroMQ takes them."""

    public: str
    secret: str


def load(folder: Path, name: str) -> KeyPair:
    """Read a principal's key pair; UsageError if it is missing, malformed or open to others."""
    path = folder / f"{name}.key"
    try:
        # The folder, too: who may write there can put another key in the file's place.
        _require_closed(folder, folder.stat())
        with os.fdopen(opened.open_own(path), "r", encoding="ascii") as f:
            _require_closed(path, os.fstat(f.fileno()))
            public, secret = f.read(KEY_BYTES_MAX).split()
        if zmq.curve_public(secret.encode()).decode() != public:
            raise UsageError(f"{path}: the two halves of the key do not belong together")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such key; dq up makes the keys of a new cluster") from None
    except (OSError, ValueError, zmq.ZMQError) as e:
        raise UsageError(f"{path} is no key file ({e})") from e
    return KeyPair(public, secret)


def _require_closed(place: Path, found: os.stat_result) -> None:
    mode = found.st_mode & 0o777
    if mode & 0o077:
        raise UsageError(f"{place} is open to others (mode {mode:o}): refused as a key")
    if found.st_uid != os.geteuid():
        raise UsageError(f"{place} belongs to another user: refused as a key")


def ensure(folder: Path) -> None:
    """Make the key pairs that a new cluster needs; existing ones stay."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in PRINCIPALS:
        path = folder / f"{name}.key"
        if not path.exists():
            public, secret = zmq.curve_keypair()
            write_private(path, f"{public.decode()}\n{secret.decode()}\n")


def pair_of(secret: str) -> KeyPair:
    """Both halves, from the secret one."""
    return KeyPair(zmq.curve_public(secret.encode()).decode(), secret)


def job_keys(server_secret: str, job_id: int, instance: int) -> KeyPair:
    """The key pair of one start of one job."""
    text = f"dq-job:{job_id}:{instance}".encode()
    # Derived, not stored: a server that starts again knows the keys of the jobs that run. The
    # instance is part of it, so that a restarted job's earlier start cannot speak for it.
    return pair_of(z85.encode(_mac(server_secret, text)).decode())


def secret_of_job(server_secret: str, purpose: str, job_id: int) -> str:
    """A secret of a job, the same for all of its starts; hexadecimal. One for each `purpose`."""
    text = f"dq-{purpose}:{job_id}".encode()
    return _mac(server_secret, text).hex()


def _mac(secret: str, text: bytes) -> bytes:
    import hashlib  # the server's alone: commands and ranks start without
    import hmac

    return hmac.new(secret.encode(), text, hashlib.sha256).digest()
