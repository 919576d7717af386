"""What `ps` shows of DQ's own processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from dq_client.base.process import rename
rename(sys.argv[1:2] + ["local"])
rename(sys.argv[1:])  # a process that was forked of a renamed one is renamed again
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("words", "line", "name"),
    [
        (["dq-agent", "n01"], "dq-agent n01", "dq-agent"),
        (["dq-supervisor"], "dq-supervisor", "dq-supervisor"),
        (["/usr/bin/python", "a.py"], "/usr/bin/python a.py", "python"),
        (["dq-agent", "n" * 2000], "dq-agent nnnn", "dq-agent"),
        ([""], "", ""),
    ],
)
def test_a_process_has_the_name_that_it_was_given(words: list[str], line: str, name: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    shown = Path(f"/proc/{child.pid}/cmdline").read_bytes().rstrip(b"\0").decode()
    comm = Path(f"/proc/{child.pid}/comm").read_text().strip()
    environment = Path(f"/proc/{child.pid}/environ").read_bytes()
    child.communicate()
    assert child.returncode == 0
    assert shown.startswith(line)
    assert "\0" not in shown
    assert comm == name
    assert b"PATH=" in environment, "the next memory is its environment"
