"""`dq doctor --emulation`: the measured speed of emulated nodes, beside that of the cluster file.

Also `dq doctor --clean`: removes what killed contained clusters have left in the kernel.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from dq_client.base import environment
from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.base.states import ENDED
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import ClusterShape, Link
from dq_client.deploy.mechanism import choose, require_fit
from dq_client.node.emulation import contained
from dq_client.show.output import table

BUSY = (1, 9, 36)
PROBE = [sys.executable, "-m", "resize_lib.emulation.probe"]
PROBE_LIMIT_S = 120.0
SPEED_ERROR_MAX = 0.10
LINK_ERROR_MAX = 0.15


def run_emulation_doctor(
    cluster: ClusterShape,
    *,
    fidelity: str = "paced",
    busy: tuple[int, ...] = BUSY,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure an emulated cluster in a home of its own; `print_emulation` shows the result.

    `busy`: how many nodes compute at once; more than there are count as all. Returns one row per
    number with what was asked for, what nodes gave (median, least, most) and the errors.
    """
    require_fit(cluster)
    mechanism = choose(cluster, fidelity)
    core = core_gflops()
    say(f"one core at full speed: {core:.1f} GFLOP/s; {mechanism.words}")
    root = Path(tempfile.mkdtemp(prefix="dq-doctor-"))
    home = Home(root)
    try:
        local.bring_up(home, cluster, [], mechanism.name)
        rows = []
        for count in sorted({min(count, len(cluster.nodes)) for count in busy}):
            say(f"{count} nodes busy at once ...")
            rows.append(_speed(cluster, core, count, _probe(home, "speed", count)))
        link = None
        if cluster.link is not None and len(cluster.nodes) > 1:
            say("the link between two nodes ...")
            link = _link(cluster.link, _probe(home, "link", 2))
    finally:
        shutdown.bring_down(home, force=True)
        shutil.rmtree(root, ignore_errors=True)
    return {
        "cluster": cluster.name,
        "mechanism": mechanism.name,
        "words": mechanism.words,
        "core_gflops": core,
        "rows": rows,
        "link": link,
        "ok": all(row["ok"] for row in rows) and (link is None or link["ok"]),
    }


def core_gflops() -> float:
    """One core of this machine at full speed, over processor time."""
    done = subprocess.run(
        [*PROBE, "alone"], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode != 0:
        raise DQError(f"the speed of a core cannot be measured: {done.stderr.strip()[-300:]}")
    return float(json.loads(done.stdout)["gflops"])


def _probe(home: Home, what: str, count: int) -> dict[str, Any]:
    """Run the probe on `count` nodes."""
    body = m.Submit(
        request=uuid.uuid4().hex,
        name="probe",
        argv=[*PROBE, what],
        cwd="/",
        sizes=m.Sizes([count]),
        inherited=environment.inherited(os.environ)[0],
    )
    with closing(Connection.to(home)) as connection:
        submitted = connection.call(body, timeout_s=10.0)
        assert isinstance(submitted, m.Submitted)
        state = _ended(connection, submitted.job)
    folder = home.job(submitted.job)
    if state != "done":
        text = (folder / "err").read_text()[-500:] if (folder / "err").exists() else ""
        raise DQError(f"the probe on {count} nodes {state}: {text.strip()}")
    found: dict[str, Any] = json.loads((folder / "out").read_text())
    return found


def _ended(connection: Connection, job: int) -> str:
    deadline = time.monotonic() + PROBE_LIMIT_S
    while time.monotonic() < deadline:
        state = str(ask(connection, m.JobQuery(job))["state"])
        if state in ENDED:
            return state
        time.sleep(0.2)
    return f"did not end within {PROBE_LIMIT_S:g} s"


def _speed(cluster: ClusterShape, core: float, count: int, found: dict[str, Any]) -> dict[str, Any]:
    speeds = found["gflops"]
    share = next((n.core_share for n in cluster.nodes if n.core_share is not None), 1.0)
    asked, given = core * share, statistics.median(speeds)
    return {
        "busy": count,
        "gflops_asked": asked,
        "gflops_given": given,
        "gflops_least": min(speeds),
        "gflops_most": max(speeds),
        "error": given / asked - 1,
        "ok": abs(given / asked - 1) <= SPEED_ERROR_MAX,
    }


def _link(wanted: Link, found: dict[str, Any]) -> dict[str, Any]:
    asked = wanted.rate_mbit / 8
    error = found["mbyte_s"] / asked - 1
    return {
        "mbyte_s_asked": asked,
        "mbyte_s_given": found["mbyte_s"],
        "error": error,
        "latency_us_asked": wanted.latency_us,
        "latency_us_given": found["latency_us"],
        "ok": abs(error) <= LINK_ERROR_MAX,
    }


def print_emulation(report: dict[str, Any]) -> str:
    """The report as text."""
    head = ("BUSY NODES", "GFLOP/s ASKED", "GIVEN", "LEAST", "MOST", "ERROR", "")
    rows = []
    for row in report["rows"]:
        speeds = [f"{row[f'gflops_{key}']:.2f}" for key in ("asked", "given", "least", "most")]
        verdict = "ok" if row["ok"] else "NO"
        rows.append((row["busy"], *speeds, f"{100 * row['error']:+.1f} %", verdict))
    lines = [report["words"], table(head, rows)]
    if link := report["link"]:
        lines.append(
            f"link: {link['mbyte_s_given']:.1f} MB/s of {link['mbyte_s_asked']:.1f} asked"
            f" ({100 * link['error']:+.1f} %, {'ok' if link['ok'] else 'NO'}),"
            f" latency {link['latency_us_given']:.0f} µs of {link['latency_us_asked']:.0f}"
        )
    lines.append(f"ok: speeds within {SPEED_ERROR_MAX:.0%}, the link within {LINK_ERROR_MAX:.0%}")
    return "\n".join(lines)


def clean_leftovers() -> list[contained.Leftover]:
    """Remove what contained clusters without a server have left; returns what was removed."""
    found = contained.leftovers()
    for leftover in found:
        contained.remove(leftover.tag)
    return found
