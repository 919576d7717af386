"""What another user of the machine can do to a running job: nothing (docs/security.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.bench import until
from harness.commands import HANG_S
from harness.live import Live

NOBODY = 65534
pytestmark = [pytest.mark.live, pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")]

# Run as the other user; prints what it could do, as JSON.
ATTACKS = r"""
import glob, json, os, signal, socket, sys
home, pids, ports = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
could = []

def tried(what, attack):
    try:
        attack()
    except (OSError, EOFError):
        return
    could.append(what)

def talk(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=2) as s:
        s.sendall(data)
        s.settimeout(1)
        s.recv(100)

tried("list the home", lambda: os.listdir(home))
for path in ("agents", "jobs", "keys", "keys/user.key", "journal.sqlite", "server.json"):
    tried("open " + path, lambda: open(os.path.join(home, path)))
for pid in pids:
    tried(f"signal {pid}", lambda: os.kill(pid, signal.SIGTERM))
    tried(f"environment of {pid}", lambda: open(f"/proc/{pid}/environ", "rb").read())
    tried(f"memory of {pid}", lambda: open(f"/proc/{pid}/mem", "rb"))
    for fd in range(3, 40):
        tried(f"descriptor {fd} of {pid}", lambda: open(f"/proc/{pid}/fd/{fd}", "rb"))
for path in glob.glob("/dev/shm/*") + glob.glob("/tmp/dq*") + glob.glob("/tmp/hydra*"):
    if os.stat(path).st_mtime > float(sys.argv[4]):
        tried("open " + path, lambda: open(path, "r+b"))
for port in ports:
    for data in (b"HYD\0\1\0\0\0", b"\0" * 12, b"cmd=abort exitcode=1\n", os.urandom(4096)):
        try:
            talk(port, data)  # the server's: a greeting, and nothing else
        except OSError:
            pass
# What an unnamed unix socket would let in.
for line in open("/proc/net/unix"):
    name = line.split()[-1]
    if name.startswith("@") and ("dq" in name or "pmi" in name):
        could.append("reach " + name)
print(json.dumps(could))
"""


def ranks_of(live: Live) -> list[int]:
    """Processes of the cluster: server, agents, starters, keepers, ranks."""
    mark = f"DQ_HOME={live.home.root}"
    found = []
    for process in psutil.process_iter():
        try:
            environ = Path(f"/proc/{process.pid}/environ").read_text(errors="replace")
            if mark in environ.split("\0"):
                found.append(process.pid)
        except (OSError, psutil.Error):
            continue
    return found


def listening(pids: list[int]) -> set[int]:
    """TCP ports on which one of these processes listens."""
    connections = psutil.net_connections("tcp")
    ours = [c for c in connections if c.status == psutil.CONN_LISTEN and c.pid in pids]
    return {int(c.laddr[1]) for c in ours if c.laddr}


def test_another_user_can_do_nothing(live: Live, tmp_path: Path) -> None:
    began = tmp_path.stat().st_mtime - 1
    live.up(4)
    program = "from mpi4py import MPI; import time; c = MPI.COMM_WORLD\n"
    program += "for _ in range(40): c.Barrier(); time.sleep(0.1)\nprint('right', c.rank)"
    job = live.submit("-n", 3, "--name", "target", "--", sys.executable, "-c", program)
    live.wait(job, lambda view: view["state"] == "running")
    until(lambda: len(ranks_of(live)) >= 6, "no server, agent, starter, keeper and three ranks")
    pids = ranks_of(live)
    server = int(live.home.server()["address"].rpartition(":")[2])
    assert listening(pids) == {server}, "nothing but the server listens"
    words = [str(live.home.root), json.dumps(pids), json.dumps([server]), str(began)]
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    done = subprocess.run(
        [python, "-c", ATTACKS, *words],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    view = live.wait_end(job)
    assert view["state"] == "done", view["reason"]
    assert sorted(live.dq("logs", job).splitlines()) == [f"right {r}" for r in range(3)]
