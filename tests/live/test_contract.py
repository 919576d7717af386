"""What scripts read, as it was recorded: keys and types of every `--json`, CSV headers, exit codes.

Recorded by `pytest tests/live/test_contract.py --record`; contract.txt has one line for each key. A
key that goes, comes or changes its type is a line that differs. A scenario need not meet every type
of a line each time: whether a job has ended is a matter of time. Recording adds to what is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

GOLDEN = Path(__file__).with_name("contract.txt")
CONFIG = '[quotas.user."*"]\nprocessors = 4\nhours = 100\nwindow = "7d"\n'
GATED = ("sh", "-c", 'until [ -e "$0" ]; do sleep 0.1; done')
# Keys that are names of the user's, or figures of a sentence: any of them is the same one.
TABLES = frozenset({"nodes", "agents", "figures", "keys", "ended", "states"})
Lines = dict[str, set[str]]


def shape(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Each key below `where`, with the type of its value."""
    key = where.rpartition(".")[2].removesuffix("[]")
    if isinstance(value, dict):
        yield where, "table"
        for name, inner in value.items():
            if key in TABLES and not where.endswith("[]"):
                if key != "figures":
                    yield from shape(inner, f"{where}.*")
            else:
                yield from shape(inner, f"{where}.{name}")
    elif isinstance(value, list):
        yield where, "list"
        for inner in value:
            yield from shape(inner, f"{where}[]")
    else:
        names = {bool: "bool", int: "number", float: "number", str: "text", type(None): "null"}
        yield where, names[type(value)]


def add(found: Lines, command: str, text: str) -> None:
    for where, kind in shape(json.loads(text), f"dq {command}"):
        found.setdefault(where, set()).add(kind)


def written(lines: Lines) -> str:
    return "".join(
        f"{where}: {' '.join(sorted(kinds))}\n" for where, kinds in sorted(lines.items())
    )


def read(text: str) -> Lines:
    return {where: set(kinds.split()) for where, kinds in re.findall(r"(.+): (.+)\n", text)}


def differences(golden: Lines, found: Lines) -> list[str]:
    """Keys that only one of both has, and types that were not recorded. What is in a list or table
    that was empty this time was not to be seen."""

    def seen(where: str) -> bool:
        if where.endswith("[]"):
            return False
        parent = where.rpartition(".")[0]
        return not where.endswith(".*") and (not parent or "table" in found.get(parent, ()))

    gone = [where for where in golden.keys() - found.keys() if seen(where)]
    new = [where for where, kinds in found.items() if not kinds <= golden.get(where, set())]
    return [
        f"{where}: {' '.join(sorted(found.get(where, {'gone'})))},"
        f" recorded {' '.join(sorted(golden.get(where, {'nothing'})))}"
        for where in sorted({*gone, *new})
    ]


def scenario(live: Live, folder: Path) -> Lines:
    """Jobs in most states, a drained node, a reservation, a window; then every command."""
    found: Lines = {}
    config, gate, program = folder / "config.toml", folder / "gate", folder / "program.py"
    config.write_text(CONFIG)
    program.write_text("import numpy\n")

    def ask(name: str, *words: object) -> None:
        done = live.run(*words, "--json")
        assert done.stdout, (name, done.stderr)
        add(found, name, done.stdout)

    live.up(4, "--config", config)
    found["exit code, failed"] = {str(live.run("run", "-n", 1, "--", "false").returncode)}
    growing = ("--", "python", "-m", "tests.live.growing", "--n", 64)
    ask("submit --json", "submit", "-n", 1, "--", "true")
    done = live.submit("-n", 1, "--", "true")
    failed = live.submit("-n", 1, "--retry", 1, "--", "sh", "-c", "echo no >&2; exit 3")
    ask("submit --array --json", "submit", "-n", 1, "--array", "0-1%1", "--", "true")
    array: int = json.loads(live.dq("jobs", "--json"))["jobs"][-1]["array"]
    for job in (done, failed, array + 2):
        live.wait_end(job)
    malleable = live.submit(
        "-n",
        1,
        "--sizes",
        "1,2",
        "--protect",
        "--protect-every",
        "1s",
        *growing,
        "--iterations",
        4000,
    )
    live.wait(malleable, lambda j: len(j["sizes"]) > 1 and j["protection"]["copies"])
    ask("resize --json", "resize", malleable, 1)
    running = live.submit("-n", 1, "--walltime", "10m", "--", *GATED, gate)
    live.wait(running, lambda j: j["state"] == "running")
    waiting = live.submit("-n", 1, "--after", running, "--", "true")
    ask("submit --profile --json", "submit", "--profile", "60:1,60:2", "--", "true")
    queued = live.submit("-n", 4, "--", "true")
    ask("hold --json", "hold", queued)
    ask("release --json", "release", queued)
    ask("hold several --json", "hold", queued, 9999)
    ask("node drain --json", "node", "drain", "n04", "--deadline", "10m", "--reason", "memory")
    ask("node resume --json", "node", "resume", "n03")
    ask("reserve --json", "reserve", "-n", 1, "--start", "+2h", "--duration", "1h")
    ask("maintenance NODE --json", "maintenance", "n01", "--start", "+3h", "--duration", "1h")
    for job in (done, malleable, running, waiting, queued):
        ask("job ID --json", "job", job)
        ask("why ID --json", "why", job)
    ask("job ARRAY --json", "job", array)
    ask("logs --json", "logs", done)
    for name in ("jobs --all", "nodes", "acct", "acct --by user", "quotas", "reservations", "audit",
                 "maintenance", "server status", "agent status", "recipe list",
                 "server check"):  # fmt: skip
        ask(f"{name} --json", *name.split())
    ask("check --json", "check", program)
    ask("report --json", "report", "-o", folder / "report.html")
    ask("report ID --json", "report", malleable, "-o", folder / "report.html")
    ask("web --detach --json", "web", "--detach")
    ask("web status --json", "web", "status")
    ask("backup --json", "backup", folder / "backup")
    for name, *words in (
        ("job of no number", "job", 9999), ("why of no number", "why", 9999),
        ("usage", "jobs", "-x"), ("unknown node", "node", "drain", "n99"),
        ("refused", "submit", "-n", 5, "--", "true"), ("list", "jobs"), ("unknown", "nothing"),
    ):  # fmt: skip
        found[f"exit code, {name}"] = {str(live.run(*words).returncode)}
    for name in ("acct --csv", "acct --by user --csv"):
        found[f"dq {name}"] = {live.dq(*name.split()).split("\n")[0]}
    ask("kill --json", "kill", malleable)
    live.wait_end(malleable)
    for line in live.dq("watch", "--job", malleable, "--json", code=None).splitlines():
        add(found, "watch --job --json", line)
    live.dq("down", "--force")
    found["exit code, no server"] = {str(live.run("submit", "-n", 1, "--", "true").returncode)}
    ask("jobs of a stopped cluster --json", "jobs")
    return found


@pytest.mark.timeout(240)
def test_what_scripts_read_is_as_recorded(
    live: Live, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = scenario(live, tmp_path)
    golden = read(GOLDEN.read_text())
    if request.config.getoption("--record"):
        both = {where: kinds | golden.get(where, set()) for where, kinds in found.items()}
        GOLDEN.write_text(written({**golden, **both}))
        return
    assert differences(golden, found) == []


def test_a_key_renamed_or_of_another_type_is_noticed() -> None:
    golden: Lines = {}
    add(golden, "jobs", '{"jobs": [{"id": 1, "end_s": null}, {"id": 2, "end_s": 2.5}]}')
    same: Lines = {}
    add(same, "jobs", '{"jobs": [{"id": 1, "end_s": 2}]}')
    assert read(written(golden)) == golden
    assert differences(golden, same) == []
    for other in ('{"jobs": [{"number": 1, "end_s": 2}]}', '{"jobs": [{"id": "1", "end_s": 2}]}'):
        changed: Lines = {}
        add(changed, "jobs", other)
        assert differences(golden, changed)
