"""What survivors find of a job's copies in the memory of several machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import OWN, run_job

pytestmark = pytest.mark.mpi
PROGRAM = str(Path(__file__).with_name("programs") / "copies_apart.py")


def found(folder: Path, dead: str, *damage: str) -> Any:
    ended = run_job(OWN, 4, [PROGRAM, str(folder), dead, *damage], limit_s=60)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert not result["seen"] or max(result["seen"]) == 2, "a rank sees another machine's memory"
    return result


@pytest.mark.parametrize(
    ("dead", "damage", "step"),
    [
        ("0", [], 50),
        ("1,3", [], 50),
        ("2", ["5:n0:0", "5:n2:1", "5:n3:2"], 50),  # the other file of each is sound
        ("1", ["5:*:2"], 40),
        ("1", ["5:n0:manifest", "5:n2:manifest"], 50),  # a loss while manifests were written
        ("1", ["5:*:manifest"], 40),
        ("3", ["5:*:2", "4:*:1"], None),
        ("0,1", [], None),  # a whole machine: part 0 was on none else
    ],
)  # fmt: skip
def test_the_newest_copy_with_a_sound_file_of_each_part_counts(
    tmp_path: Path, dead: str, damage: list[str], step: int | None
) -> None:
    result = found(tmp_path, dead, *damage)
    assert result["step"] == step
    assert result["right"] == (step is not None)
    if step is not None:
        name = f"2.{step // 10}"
        assert [copies[0] for copies in result["left"]] == [name] * len(result["left"])
