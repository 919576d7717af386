"""Programs of docs/examples/porting under a server that resizes them, each at three turns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.live import Live
from harness.ported import PROGRAMS, Ported

pytestmark = [pytest.mark.live, pytest.mark.mpi]

GATED = Path(__file__).with_name("gated.py")
SIZES = (2, 4, 2)
TURNS_APART = 8  # for an order to be carried out, before the next one replaces it


@dataclass
class Walk:
    """The jobs of one program; `gates`: the turns after which it is resized."""

    gates: list[int]
    folder: Path
    resized: int = 0  # the jobs' ids
    plain: int = 0


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, dict[str, Walk]]]:
    """A cluster that resizes only when told to, with all jobs on it: they start together."""
    folder = tmp_path_factory.mktemp("ported")
    config = folder / "config.toml"
    config.write_text('[scheduler]\nresize = "none"\n')
    cluster = Live(folder / "home")
    cluster.up(6 * len(PROGRAMS), "--config", config)
    found = {}
    cluster.env["DQ_REPORT_INTERVAL"] = "0"  # every turn is a remap point
    for number, (name, ported) in enumerate(PROGRAMS.items()):
        some = random.Random(number).sample(range(1, ported.turns // TURNS_APART), 3)
        gates = sorted(TURNS_APART * part for part in some)
        walk = Walk(gates, folder / name)
        walk.folder.mkdir()
        gate = [GATED, walk.folder, ",".join(map(str, gates))]
        words = ["-n", 1, "--sizes", "1,2,4", "--", "python", *gate, ported.after]
        walk.resized = cluster.submit(*words, *ported.arguments(walk.folder / "resized"))
        words = ["-n", 2, "--", "python", ported.before]
        walk.plain = cluster.submit(*words, *ported.arguments(walk.folder / "plain"))
        found[name] = walk
    yield cluster, found
    cluster.clear()


@pytest.mark.parametrize("ported", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_ported_program_finds_the_same_resized_or_not(
    walks: tuple[Live, dict[str, Walk]], ported: Ported
) -> None:
    cluster, walk = walks[0], walks[1][ported.name]
    for turn, size in zip(walk.gates, SIZES, strict=True):
        there = walk.folder / f"at-{turn}"
        cluster.wait(walk.resized, lambda job, there=there: there.exists())  # type: ignore[misc]
        cluster.dq("resize", walk.resized, size)
        (walk.folder / f"go-{turn}").touch()
    for number in (walk.plain, walk.resized):
        end = cluster.wait_end(number)
        assert end["state"] == "done", (end["reason"], cluster.dq("logs", number, "--err"))
    print(cluster.dq("why", walk.resized))  # shown if the test fails
    assert [s["processors"] for s in end["sizes"]] == [1, *SIZES]
    ported.assert_equal(walk.folder / "resized", walk.folder / "plain")
