"""docs/tutorial.md does what it says: its blocks, in order, in a fresh copy of the tree.

But for the first one, which installs DQ: test_readme.py does that with the README's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.test_readme import fresh_copy

pytestmark = [pytest.mark.live, pytest.mark.mpi]
__all__ = ["fresh_copy"]

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()


def test_the_tutorial_runs_in_a_fresh_clone(fresh_copy: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert "pip install" in blocks[0]
    blocks[0] = f"export PATH={Path(sys.executable).parent}:$PATH"
    last = "dq down\n"
    assert blocks[-1].endswith(last)
    # What it says of the jobs is looked at before the end.
    look = "for job in 1 2 3; do dq job $job --json > job-$job.json; dq why $job > why-$job; done\n"
    blocks[-1] = blocks[-1].removesuffix(last) + look + last
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))},
        "DQ_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + "\n".join(blocks)],
        cwd=fresh_copy, env=env, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    if done.returncode:
        dq = Path(sys.executable).with_name("dq")
        subprocess.run([dq, "down", "--force"], env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(r"heat (\S+) on (\d) ranks?", done.stdout)
    assert said[0][1] == "1" and int(said[1][1]) > 1, "it has grown"
    assert len({heat for heat, _ in said}) == 1, "the result is the same"
    grown = [json.loads((fresh_copy / f"job-{k}.json").read_text())["job"] for k in (1, 2, 3)]
    first, second, *_ = [size["processors"] for size in grown[0]["sizes"]]
    assert first == 1 and second > 1
    assert grown[2]["state"] == "done"
    # On a machine that others use it may have found no gain in growing, or not so soon.
    before = [s for s in grown[1]["sizes"] if s["since_s"] < grown[2]["submit_s"]]
    if before[-1]["processors"] > 2:
        assert "shrink" in (fresh_copy / "why-2").read_text(), "it gave back what the third needed"
    assert (fresh_copy / "report.html").stat().st_size > 1000
