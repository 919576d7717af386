"""What docs/slurm.md shows, under a real Slurm of four nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.pages import put
from tests.pages.owners import of
from tests.slurm.on_slurm import OnSlurm

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.slurm]

# A small machine's nodes of one processor, its partition, and a product that takes seconds.
FILE = {"max = 8": "max = 4", "shape = { processors = 16 }": "shape = { processors = 1 }",
        'partition = "batch"': 'partition = "all"', '"2:00:00"': '"30"'}  # fmt: skip
JOB = {
    "-n 4 --sizes 4,8,16,32": "-n 1 --sizes 1,2,4",
    "4800 --iterations 200": "480 --iterations 30",
}
BATCH = {"--nodes=8 --ntasks-per-node=16": "--nodes=4 --ntasks-per-node=1",
         "-n 16 --sizes 16,32,64,128": "-n 1 --sizes 1,2,4",
         "9600 --iterations 100": "480 --iterations 30"}  # fmt: skip


def test_a_pool_as_the_page_has_it(on_slurm: OnSlurm, tmp_path: Path) -> None:
    (file,) = (block for block in of("cluster") if str(block) == "slurm.md-0")
    commands, _ = of("slurm")
    (tmp_path / "slurm.toml").write_text(put(file.text, FILE))
    done = subprocess.run(
        ["bash", "-c", "set -e\n" + put(commands.commands(), JOB)],
        cwd=tmp_path, env=on_slurm.env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_cluster_in_a_batch_job_as_the_page_has_it(on_slurm: OnSlurm, tmp_path: Path) -> None:
    _, batch = of("slurm")
    script = tmp_path / "job.sh"
    script.write_text(put(batch.text, BATCH))
    said = tmp_path / "said"
    done = subprocess.run(
        ["sbatch", "--wait", f"--output={said}", "--export=ALL", str(script)],
        cwd=tmp_path, env=on_slurm.env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr + said.read_text()
