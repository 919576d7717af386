"""`dq backup`, `dq restore`, `dq server check`: the journal over the years (docs/years.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.cli.requests import json_option
from dq_client.show.output import note, print_json, say


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def backup(file: Path, as_json: bool) -> None:
    """Write a backup of the cluster's journal, keys and configuration to FILE.

    While the server runs or not. FILE must not exist; it holds keys, so only its owner reads it.
    """
    done = _upkeep("backup", str(file.absolute()))
    if as_json:
        print_json(**done)
    note(f"{done['file']}: {done['events']} events, {done['bytes'] / 1e6:.1f} MB, with keys")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def restore(file: Path, as_json: bool) -> None:
    """Put the backup FILE into $DQ_HOME, where no server may run.

    The backup is verified first; a damaged one changes no file. Replaced files are kept.
    """
    done = _upkeep("restore", str(file.absolute()))
    if as_json:
        print_json(**done)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(done["time"]))
    note(f"restored as of {at}: {done['events']} events")
    if done["replaced"]:
        note(f"what was there before is in {done['replaced']}")


@click.command()
@click.option("--mend", is_flag=True, help="Make a journal of the sound part; keep the old files.")
@json_option
def check(mend: bool, as_json: bool) -> int:
    """Read the whole journal and its snapshots: exit code 0 if all is well, 1 if not.

    While the server runs or not; --mend needs it stopped.
    """
    if mend:
        done = _upkeep("mend")
        if as_json:
            print_json(**done)
        lost = done["written"] - done["sound_to"]
        words = f", events {done['sound_to'] + 1} to {done['written']} are lost" if lost else ""
        note(f"mended: all is well up to event {done['sound_to']}{words}")
        note(f"the damaged files are in {done['replaced']}")
        return 0
    found = _upkeep("check")
    problems = found["problems"]
    if as_json:
        print_json(**found)
    else:
        _show(found)
    for problem in problems:
        note(problem)
    return 1 if problems else 0


def _show(found: dict[str, Any]) -> None:
    events = found.get("events", {})
    rows = {
        "journal": found["journal"],
        "events": events.get("last"),
        "sound to": events.get("sound_to"),
        "snapshots": ", ".join(map(str, found.get("snapshots", []))) or None,
        "ended jobs": found.get("ended_jobs"),
        "versions": ", ".join(
            f"{row['version']} from event {row['after'] + 1}" for row in found.get("versions", [])
        )
        or None,
    }
    for name, value in rows.items():
        if value is not None:
            say(f"{name + ':':12}{value}")
    if not found["problems"]:
        say("all is well")


def _upkeep(verb: str, *arguments: str) -> dict[str, Any]:
    """Run dq_server/live/store/maintenance.py on this home; its errors are those of the command."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dq_server.live.store.maintenance", verb, *arguments],
        env={**os.environ, "DQ_HOME": str(Home.default().root)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        error = DQError(said[-1] if said else f"exit code {done.returncode}")
        error.exit_code = done.returncode
        raise error
    found: dict[str, Any] = json.loads(done.stdout)
    return found
