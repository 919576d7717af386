"""What users and their programs say reaches no terminal as more than text."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

# Colour, the window's title, a bell, text to the left, a one-byte control sequence, the line again.
HOSTILE = "bad \x1b[31mred\x1b]0;title\x07 \u202eevil \x9b31m\r done"
PROGRAM = f"""
import resize_lib, sys
with resize_lib.session() as rs:
    for turn in rs.iterations(3):
        pass
    print({HOSTILE!r})
    raise ValueError({HOSTILE!r})
"""
LINES = ("job 1", "why 1", "jobs --all", "watch --job 1", "nodes", "submit --wait -- false \x1b[2J",
         "kill nobody\x1b[31m", "submit --env \x1b[31m -- true", "job 77\x1b")  # fmt: skip


def odd(text: str) -> set[str]:
    """The characters that a terminal may obey."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n"}


def test_nothing_of_what_a_job_says_is_obeyed(live: Live, tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[31mfolder\u202e"
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(PROGRAM)
    live.up(2)
    job = live.submit("-n", 1, "--name", "plain", "--", "python", program, "\x1b[2J\u202e\x07")
    end = live.wait_end(job)
    assert end["state"] == "failed"
    assert "\x1b[31mred" in end["reason"], "data are what they are"
    for line in LINES:
        said = live.run(*line.split(" "))
        assert said.stdout or said.stderr
        assert odd(said.stdout + said.stderr) == set(), line
    shown = live.run("job", job).stdout
    assert "bad �[31mred�]0;title� �evil �31m" in shown
    assert json.loads(live.dq("job", job, "--json"))["reason"] == end["reason"]
    raw = live.dq("logs", job)
    assert "\x1b[31mred" in raw, "output is passed on as it is"
    assert odd(live.run("job", job, "--json").stdout) == set()
    assert os.fspath(folder) in json.loads(live.dq("job", job, "--json"))["argv"][1]
