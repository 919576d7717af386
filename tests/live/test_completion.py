"""`dq completion`: a real bash offers commands, options and ids of jobs, and says nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.commands import DQ, HANG_S
from harness.live import Live

# The function that the script defines is called as bash calls it at a tab.
AT_TAB = """
eval "$(dq completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_dq_completion dq
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(live: Live, folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of `words`."""
    program = folder / "dq"
    if not program.exists():
        program.write_text(f'#!/bin/sh\nexec {" ".join(DQ)} "$@"\n')
        program.chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-c", AT_TAB, "bash", *words],
        env={**live.env, "PATH": f"{folder}:{live.env['PATH']}"},
        capture_output=True, text=True, timeout=HANG_S, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.live
def test_bash_completes_commands_options_and_ids_of_jobs(live: Live, tmp_path: Path) -> None:
    assert offered(live, tmp_path, "dq", "job", "") == []  # no cluster: nothing, and no message
    live.up(2)
    ended = live.submit("-n", 1, "--", "true")
    live.wait_end(ended)
    running = live.submit("-n", 1, "--", "sleep", "600")
    assert offered(live, tmp_path, "dq", "comp") == ["completion"]
    assert offered(live, tmp_path, "dq", "logs", "--fol") == ["--follow"]
    assert offered(live, tmp_path, "dq", "job", "") == [str(running), str(ended), "last"]
    assert offered(live, tmp_path, "dq", "job", str(ended)) == [str(ended)]
    assert offered(live, tmp_path, "dq", "kill", "") == [str(running), "last"]
    assert offered(live, tmp_path, "dq", "kill", "7-9", "l") == ["last"]
    live.dq("kill", running)
    live.wait_end(running)
    live.dq("down")
    assert offered(live, tmp_path, "dq", "kill", "") == []


def test_a_script_for_each_shell(live: Live) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = live.dq("completion", shell)
        assert f"_DQ_COMPLETE={shell}_complete" in script
        program = shutil.which(shell)
        if program is not None:  # it reads the script without a complaint
            subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=HANG_S)
    assert "'csh' is not one of" in live.run("completion", "csh").stderr
