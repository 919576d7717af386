"""The server as a program: `python -m dq_server.live`. People use `dq server start` or `dq up`."""

from __future__ import annotations

import argparse
import errno
import gc
import ipaddress
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import zmq

from dq_client.base import credentials, keys, opened, storage, versions
from dq_client.base.address import host_and_port
from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home, created_s, machine, write_private
from dq_client.base.process import rename
from dq_client.base.text_files import object_of
from dq_client.deploy import batch_settings
from dq_client.node import local_agents
from dq_server.core.model.ends import NodeOptions
from dq_server.core.model.errors import SchedulerError
from dq_server.live.configuration import EngineSettings, read_config
from dq_server.live.engines.link import EngineLink
from dq_server.live.loop import Front
from dq_server.live.standby import take_over
from dq_server.live.store import identity
from dq_server.live.store.journal import JournalError

# A full collection of a million objects takes 0.2 s, in which nobody is answered, and finds
# nothing: the state has no cycles, and those of exceptions are young. So: hardly ever.
GARBAGE = (2000, 20, 1000)
ANY_PORT = "tcp://127.0.0.1:*"
OPEN_PORT = (
    "launcher mpiexec: while a job runs, every user of this machine and network can end it, and"
    " whoever connects first at its start gets its key (docs/security.md)"
)


def main(argv: list[str] | None = None) -> int:
    """Exit code as for `dq` (docs/commands.md)."""
    parser = argparse.ArgumentParser(prog="python -m dq_server.live", description=__doc__)
    parser.add_argument("--address", help="default: the last one, else a free port of 127.0.0.1")
    parser.add_argument("--config", type=Path, help="TOML file with a [scheduler] table")
    parser.add_argument("--heartbeat", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument(
        "--lost-after", type=float, metavar="SECONDS",
        help="how long an agent may be silent; default: not quite three heartbeats",
    )  # fmt: skip
    parser.add_argument("--yes-as-root", action="store_true", help="let others reach root's server")
    # From `dq up`: told to agents, which find their interface and ports in it.
    parser.add_argument("--network", type=_network, default={}, help=argparse.SUPPRESS)
    parser.add_argument(
        "--launcher", help="dq or mpiexec; default: the configuration file's, or dq"
    )
    # From `dq up`: new nodes of these names are numbered in this order (live/agents/join_order.py).
    parser.add_argument("--expected", type=_names, default=(), help=argparse.SUPPRESS)
    # Of a server that was a standby, or starts again (live/standby/leader.py).
    parser.add_argument("--take-over", action="store_true", help="a standby's home: be the server")
    parser.add_argument("--least-epoch", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if argv is None:
        rename(["dq-server", *sys.argv[1:]])
    # A state of many jobs is a million objects that all stay: looking through them again and again
    # for garbage, as Python does while they are made, doubles the time of a start.
    gc.disable()
    home = Home.default()
    try:
        return serve(home, options)
    except DQError as e:
        print(f"dq server: {e}", file=sys.stderr)  # noqa: T201
        return e.exit_code
    except (SchedulerError, JournalError, OSError) as e:
        why = storage.fault(home.root) if home.root.is_dir() else ""
        print(f"dq server: {why or e}", file=sys.stderr)  # noqa: T201
        return 1 if why or isinstance(e, OSError) else 2


def serve(home: Home, options: argparse.Namespace) -> int:
    """Run the server of one home until it is stopped."""
    home.create()
    lock = _lock(home)  # before anything is read: two servers on one journal would both write
    # Agents and applications of an earlier server of this home look for it where it was.
    address = options.address or _last_address(home) or ANY_PORT
    refuse_exposed(address, as_root=options.yes_as_root)
    versions.require_agents(local_agents.running_agents(home), home.root)
    take_over.begin(home, meant=options.take_over)
    identity.require_journal(home)
    keys.ensure(home.keys)
    file, required = options.config or home.root / "config.toml", options.config is not None
    noted = batch_settings.noted(home)
    holders = None if noted is None or noted.allocated else noted
    pool = None if holders is None else EngineSettings(holders.pool, holders.where)
    config = read_config(file, required, options.launcher, pool)
    home.log.mkdir(mode=0o700, exist_ok=True)
    logging.basicConfig(
        stream=os.fdopen(opened.open_log(home.log / "server.log"), "a", encoding="utf-8"),
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    if not config.launching.by_agents:
        logging.getLogger("dq.server").warning("%s", OPEN_PORT)
        print(f"dq: {OPEN_PORT}", file=sys.stderr)  # noqa: T201
    engine = None if holders is None else _batch_system(home, holders)
    try:
        front = Front(
            home,
            address,
            config,
            heartbeat_s=options.heartbeat,
            lost_after_s=options.lost_after,
            expected=options.expected,
            engine=engine,
            least_epoch=options.least_epoch,
            options=_for_a_standby(options),
        )
    except zmq.ZMQError as e:
        raise UsageError(f"cannot listen on {address}: {_why_not(e)}") from e
    # Kept when the server stops, unlike server.json: see _last_address.
    write_private(home.root / "address", front.address)
    me = psutil.Process()
    info = {
        "pid": me.pid,
        "create_time": created_s(me.pid),
        "machine": machine(),
        "address": front.address,
        "cluster": front.cluster,
        **versions.noted(),
        "epoch": front.server.epoch,
        "options": sys.argv[1:],  # of this program, for who starts it again
        "heartbeat_s": options.heartbeat,
        "leave_within_s": config.of(NodeOptions).leave_within_s,
        "network": _network_of(home, options.network),
    }
    if holders is not None and engine is not None:
        _hand_over(home, holders, info)  # before a node can start that needs it
        engine.start()
    write_private(home.server_file, json.dumps(info))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: front.stop())
    signal.signal(signal.SIGQUIT, lambda *_: front.go_down())  # dq down --force
    # The state that was just made stays: the collector need not look at it again.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()
    front.run()
    if again := front.server.begin_again:
        os.close(lock)
        _begin_again(front.address, again)
    unconfirmed = front.server.unconfirmed()
    with suppress(OSError):  # of a disk that fails: the server ends in order all the same
        if unconfirmed is not None:  # `dq down` goes to those of other machines by ssh
            write_private(home.root / "unconfirmed.json", json.dumps(unconfirmed))
        home.server_file.unlink(missing_ok=True)
    os.close(lock)
    if other := front.server.pairing.replaced_by:
        raise DQError(
            f"the standby has become the server, at {other}: commands for it need its DQ_HOME. This"
            " machine can be a standby again, in another DQ_HOME"
        )
    return 0


def _for_a_standby(options: argparse.Namespace) -> tuple[str, ...]:
    """The command line of a server that takes the place of this one. Its files are copied."""
    words = ["--heartbeat", str(options.heartbeat)]
    if options.lost_after is not None:
        words += ["--lost-after", str(options.lost_after)]
    if options.launcher is not None:
        words += ["--launcher", options.launcher]
    return (*words, *["--yes-as-root"] * options.yes_as_root)


def _begin_again(address: str, least_epoch: int) -> None:
    """Be the same server once more, of a later epoch: agents have agreed to obey no earlier one."""
    words = sys.argv[1:]
    for option in ("--address", "--least-epoch"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    words += ["--address", address, "--least-epoch", str(least_epoch)]
    os.execv(sys.executable, [sys.executable, "-m", "dq_server.live", *words])  # noqa: S606


def _batch_system(home: Home, noted: batch_settings.BatchRecord) -> EngineLink:
    """The engine of the pool; most servers have none, and start sooner without it."""
    from dq_client.deploy.systems import systems_of
    from dq_server.live.engines.batch import BatchEngine
    from dq_server.live.engines.driver import Thread

    systems = systems_of(noted)
    return EngineLink(Thread(BatchEngine(home, noted, systems, sys.executable)))


def _hand_over(home: Home, noted: batch_settings.BatchRecord, info: dict[str, Any]) -> None:
    """Put what nodes need to report where they can read it."""
    path = noted.folder(home) / "credentials"
    try:
        credentials.write(path, credentials.of_server(home, info))
    except OSError as e:
        raise UsageError(
            f"{path} cannot be written ({e.strerror}): give another [{noted.table.table}] folder"
        ) from e


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _network(text: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(text)
    return found


def _network_of(home: Home, given: dict[str, str]) -> dict[str, str]:
    """What agents are told of the cluster's network: as given, else as the last server was."""
    path = home.root / "network.json"
    if given:
        write_private(path, json.dumps(given))
        return given
    try:
        return {str(k): str(v) for k, v in object_of(path).items()}
    except (OSError, ValueError):
        return {}


def _why_not(error: zmq.ZMQError) -> str:
    """Why an address cannot be listened on, and what to do."""
    if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return "this machine has no such address: see ip address"
    if error.errno == errno.EADDRINUSE:
        return "the port is in use: is another server there?"
    return f"{error}"


def _last_address(home: Home) -> str | None:
    try:
        return opened.read_text(home.root / "address").strip() or None
    except (OSError, ValueError):  # none yet, or no text: another port
        return None


def refuse_exposed(address: str, *, as_root: bool = False) -> None:
    """Listening beyond this machine must be asked for by name: see docs/security.md.

    `as_root`: root has said that this is meant.
    """
    if address.startswith("ipc:///"):
        return  # a socket in a folder: nobody beyond this machine
    if not address.startswith("tcp://"):
        raise UsageError(f"{address}: an address looks like tcp://127.0.0.1:5555")
    host, _ = host_and_port(address)
    try:
        found = ipaddress.ip_address(host)
    except ValueError:  # a name or an interface, or all of them
        found = None
    if host == "*" or (found is not None and found.is_unspecified):
        # Agents and ranks are told the address: they would look for the server on their machine.
        raise UsageError(
            f"{address}: give one address of this machine, which its agents can reach, not all"
        )
    inside = found is not None and found.is_loopback
    if os.geteuid() == 0 and not inside and not as_root:
        raise UsageError(
            "a server run by root listens on this machine only: run it as a user, or give"
            " --yes-as-root where root is the only user (a container)"
        )


def _lock(home: Home) -> int:
    """One server per home. The lock goes with the process, however it ends."""
    fd = opened.lock(home.lock_file)
    if fd is None:
        raise UsageError(f"a server is running in {home.root} already: dq server status shows it")
    return fd


if __name__ == "__main__":
    sys.exit(main())
