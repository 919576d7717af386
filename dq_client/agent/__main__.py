"""An agent as a program: `python -m dq_client.agent`. People use `dq agent start` or `dq up`."""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import logging
import os
import signal
import sys
import time

import msgspec
import psutil

from dq_client import keys
from dq_client.agent.agent import Agent
from dq_client.agent.keeper import PR_SET_CHILD_SUBREAPER
from dq_client.connection import Connection
from dq_client.errors import DQError, NoServer, UsageError
from dq_client.home import Home, write_private
from dq_client.launch import raise_open_file_limit
from dq_client.messages import NodeInfo


def main(argv: list[str] | None = None) -> int:
    """Exit code as for `dq` (DESIGN.md)."""
    parser = argparse.ArgumentParser(prog="python -m dq_client.agent", description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--nodes", required=True, help="JSON list of node descriptions")
    parser.add_argument("--interface", default="lo")
    options = parser.parse_args(argv)
    try:
        nodes = msgspec.json.decode(options.nodes, type=list[NodeInfo])
        serve(Home.default(), options.name, nodes, options.interface)
    except msgspec.DecodeError as e:
        print(f"dq agent: --nodes: {e}", file=sys.stderr)  # noqa: T201
        return 2
    except DQError as e:
        logging.getLogger("dq.agent").error("%s", e)  # noqa: TRY400
        print(f"dq agent: {e}", file=sys.stderr)  # noqa: T201
        return e.exit_code
    return 0


def serve(home: Home, name: str, nodes: list[NodeInfo], interface: str) -> None:
    """Run one agent until it is retired."""
    home.create()
    home.log.mkdir(mode=0o700, exist_ok=True)
    logging.basicConfig(
        filename=home.log / f"agent-{name}.log",
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    folder = home.agent(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"agent {name} is running already") from None
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    raise_open_file_limit()
    me = psutil.Process()
    info = {"pid": me.pid, "create_time": me.create_time(), "name": name}
    write_private(folder / "agent.json", json.dumps(info))
    agent = Agent(home, name, nodes, _connect(home), interface=interface)
    agent.heartbeat_s = home.server().get("heartbeat_s", agent.heartbeat_s)
    signal.signal(signal.SIGTERM, lambda *_: setattr(agent, "retired", True))
    try:
        agent.run()
    finally:
        (folder / "agent.json").unlink(missing_ok=True)


def _connect(home: Home, patience_s: float = 10.0) -> Connection:
    """Find the server of this home; it may be starting at this very moment."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            info = home.server()
            break
        except NoServer:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    server = keys.load(home.keys, "server")
    return Connection(info["address"], server.public, keys.load(home.keys, "agent"))


if __name__ == "__main__":
    sys.exit(main())
