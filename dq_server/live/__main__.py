"""The server as a program: `python -m dq_server.live`. People use `dq server start` or `dq up`."""

from __future__ import annotations

import argparse
import fcntl
import gc
import ipaddress
import json
import logging
import os
import signal
import sys
from pathlib import Path

import psutil
import zmq

from dq_client import keys
from dq_client.errors import DQError, UsageError
from dq_client.home import Home, machine, write_private
from dq_server.core.features.nodes import NodeOptions
from dq_server.core.model.errors import SchedulerError
from dq_server.live.configuration import read_config
from dq_server.live.front import Front

# A full collection of a million objects takes 0.2 s, in which nobody is answered, and finds
# nothing: the state has no cycles, and those of exceptions are young. So: hardly ever.
GARBAGE = (2000, 20, 1000)
ANY_PORT = "tcp://127.0.0.1:*"
OPEN_PORT = (
    "launcher mpiexec: while a job runs, every user of this machine and network can end it, and"
    " whoever connects first at its start gets its key (docs/security.md)"
)


def main(argv: list[str] | None = None) -> int:
    """Exit code as for `dq` (README, Commands)."""
    parser = argparse.ArgumentParser(prog="python -m dq_server.live", description=__doc__)
    parser.add_argument("--address", help="default: the last one, else a free port of 127.0.0.1")
    parser.add_argument("--config", type=Path, help="TOML file with a [scheduler] table")
    parser.add_argument("--heartbeat", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument(
        "--launcher", help="dq or mpiexec; default: the configuration file's, or dq"
    )
    # From `dq up`: new nodes of these names are numbered in this order (live/join_order.py).
    parser.add_argument("--expected", type=_names, default=(), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    # A state of many jobs is a million objects that all stay: looking through them again and again
    # for garbage, as Python does while they are made, doubles the time of a start.
    gc.disable()
    try:
        return serve(Home.default(), options)
    except DQError as e:
        print(f"dq server: {e}", file=sys.stderr)  # noqa: T201
        return e.exit_code
    except SchedulerError as e:
        print(f"dq server: {e}", file=sys.stderr)  # noqa: T201
        return 2


def serve(home: Home, options: argparse.Namespace) -> int:
    """Run the server of one home until it is stopped."""
    home.create()
    lock = _lock(home)  # before anything is read: two servers on one journal would both write
    # Agents and applications of an earlier server of this home look for it where it was.
    address = options.address or _last_address(home) or ANY_PORT
    refuse_exposed(address)
    keys.ensure(home.keys)
    file, required = options.config or home.root / "config.toml", options.config is not None
    config = read_config(file, required, options.launcher)
    home.log.mkdir(mode=0o700, exist_ok=True)
    logging.basicConfig(
        filename=home.log / "server.log",
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    if not config.launching.by_agents:
        logging.getLogger("dq.server").warning("%s", OPEN_PORT)
        print(f"dq: {OPEN_PORT}", file=sys.stderr)  # noqa: T201
    try:
        heartbeat_s, expected = options.heartbeat, options.expected
        front = Front(home, address, config, heartbeat_s=heartbeat_s, expected=expected)
    except zmq.ZMQError as e:
        raise UsageError(f"cannot listen on {address}: {e}; is another server there?") from e
    # Kept when the server stops, unlike server.json: see _last_address.
    write_private(home.root / "address", front.address)
    me = psutil.Process()
    info = {
        "pid": me.pid,
        "create_time": me.create_time(),
        "machine": machine(),
        "address": front.address,
        "epoch": front.server.epoch,
        "heartbeat_s": options.heartbeat,
        "leave_within_s": config.of(NodeOptions).leave_within_s,
    }
    write_private(home.server_file, json.dumps(info))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: front.stop())
    # The state that was just made stays: the collector need not look at it again.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()
    front.run()
    home.server_file.unlink(missing_ok=True)
    os.close(lock)
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _last_address(home: Home) -> str | None:
    try:
        return (home.root / "address").read_text().strip() or None
    except OSError:
        return None


def refuse_exposed(address: str) -> None:
    """Listening beyond this machine must be asked for by name: see docs/security.md."""
    if address.startswith("ipc:///"):
        return  # a socket in a folder: nobody beyond this machine
    if not address.startswith("tcp://"):
        raise UsageError(f"{address}: an address looks like tcp://127.0.0.1:5555")
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, an interface, or all of them
        inside = False
    if os.geteuid() == 0 and not inside:
        raise UsageError("a server run by root listens on this machine only: run it as a user")


def _lock(home: Home) -> int:
    """One server per home. The lock goes with the process, however it ends."""
    fd = os.open(home.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise UsageError(
            f"a server is running in {home.root} already: dq server status shows it"
        ) from None
    return fd


if __name__ == "__main__":
    sys.exit(main())
