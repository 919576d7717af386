"""Commands used every minute import what they need, and no code that starts or runs a cluster.

Their processor time is measured by `python -m benchmarks.commands`; here is what it depends on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# A package here stands for its modules, too.
FORBIDDEN = (
    "psutil", "rich", "numpy", "matplotlib", "mpi4py", "asyncio", "subprocess",
    "importlib.metadata", "hashlib",
    "dataclasses", "tempfile", "shutil", "sqlite3", "tomllib",
    "dq_client.deploy.local", "dq_client.deploy.cluster", "dq_client.node.agent",
    "dq_client.deploy.ssh", "dq_client.deploy.slurm", "dq_client.deploy.batch",
    "dq_client.deploy.grid_engine", "dq_client.node.emulation",
    "dq_client.node.mpiexec", "dq_client.check", "dq_client.show.views",
    "dq_client.base.messages.agents", "dq_client.base.messages.applications",
    "dq_client.base.messages.standby", "dq_client.base.messages.bodies", "dq_server", "resize_lib",
)  # fmt: skip
WIRE = ("zmq", "msgspec")  # besides, for a command that sends nothing

# The server file is a real one, of this process; answers pass the codec, as those of a server.
PROGRAM = """
import json, os, sys
from dq_client.base import messages as m
if sys.argv[1] not in ("--version", "--help"):
    from dq_client.base import codec
    from dq_client.base.connection import Connection
    from dq_client.base.home import Home, created_s

    pid = os.getpid()
    info = {"pid": pid, "create_time": created_s(pid), "address": "tcp://127.0.0.1:9"}
    (Home.default().root / "server.json").write_text(json.dumps(info))
    answers = {
        m.StatusQuery: m.Data({"now_s": 1.0}),
        m.JobsQuery: m.Data([]),
        m.JobQuery: m.Data({"id": 1, "state": "done"}),
        m.WhyQuery: m.Data({"job": 1, "state": "done", "now": [], "story": []}),
        m.Submit: m.Submitted(1),
        m.Kill: m.Done(),
    }

    class Line:
        def call(self, body, timeout_s=5.0):
            codec.encode(m.Request("1", body))
            return codec.decode_to_user(codec.encode(m.Reply("1", answers[type(body)]))).body

        def close(self):
            pass

    Connection.to = lambda home, role="user": home.server() and Line()
from dq_client.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as e:
    assert not e.code, e.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "--help",
        "jobs",
        "jobs --json",
        "job 1 --json",
        "why 1",
        "submit -n 1 ./program",
        "kill 1",
    ],
)
def test_a_command_of_every_minute_imports_no_more_than_it_needs(
    words: str, tmp_path: Path
) -> None:
    (tmp_path / "program").touch(0o755)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words.split()],
        env={**os.environ, "DQ_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    imported = json.loads(ran.stderr.splitlines()[-1])
    forbidden = {*FORBIDDEN, *WIRE} if words.startswith("--") else {*FORBIDDEN}
    if words == "--help":
        forbidden -= {"shutil"}  # click asks it for the width of the terminal
    found = [n for n in imported for f in forbidden if n == f or n.startswith(f"{f}.")]
    assert not found
