"""How long a protected job stands still when one of its four machines dies or is cut off."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.lab.conftest import LabMaker
from tests.lab.machines import Lab
from tests.lab.test_hosts import job, nodes, until

pytestmark = [pytest.mark.live, pytest.mark.mpi]

NAMES = ("alpha", "beta", "gamma", "delta")
PROGRAM = Path(__file__).with_name("losing_time.py")
HEARTBEAT_S, LOST_AFTER_S = 0.5, 1.5
TIMES = 20


def turns(path: Path) -> list[float]:
    """When each turn began; the file is on the machines' shared disk."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [float(line.split()[0]) for line in lines]


@pytest.fixture
def machines(make_lab: LabMaker) -> Iterator[Lab]:
    """Four, each with a home of its own."""
    lab = make_lab(*NAMES)
    text = "\n".join(['engine = "hosts"', "[[nodes]]", f"names = {list(NAMES)}", "processors = 1"])
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{text}\n[network]\ninterface = \"eth0\"\nX")
    lab.ok("alpha", "printf '[scheduler]\\nresize = \"none\"\\n' > config.toml")  # on all four
    patience = f"--config config.toml --heartbeat {HEARTBEAT_S} --lost-after {LOST_AFTER_S}"
    lab.ok("alpha", f"dq up --cluster hosts.toml --detach --all {patience}")
    yield lab
    lab.run("alpha", "dq down --force")


def one_loss(lab: Lab, how: str, victim: str, number: int, sizes: str = "4,1,2,3") -> float:
    """Seconds that it stands still for a loss. `sizes`: the first is that of the start."""
    path = lab.shared / f"{how}-{number}"
    lab.ok(
        "alpha",
        f"dq submit -n {sizes[0]} --sizes {sizes} --protect partner --protect-every 10 --"
        f" python {PROGRAM} {path}",
    )
    until(lambda: len(turns(path)) > 60, "it does not get on")
    assert victim in job(lab)["nodes"]
    at_s = time.time()
    (lab.kill if how == "kill" else lab.cut)(victim)
    until(lambda: [t for t in turns(path) if t > at_s + LOST_AFTER_S + 2] != [], "it hangs")
    path.with_suffix(".stop").touch()
    until(lambda: job(lab)["state"] == "done", "it does not end")
    after = [t for t in turns(path) if t > at_s - 0.1]
    # It goes on until it waits for the one that is lost: the pause is the longest stretch.
    began, ended = max(pairwise(after), key=lambda two: two[1] - two[0])
    return ended - began


def told(how: str, times: list[float]) -> None:
    listed = " ".join(f"{t:.2f}" for t in times)
    limit = f"limit {LOST_AFTER_S} s"
    print(f"\n{how}: median {statistics.median(times):.2f} s, {limit}: {listed}")


def replaced(lab: Lab, times: int) -> list[float]:
    """Three compute; one of them is cut off, and the fourth takes its place."""
    took = list[float]()
    for number in range(times):
        victim = random.Random(number).choice(("beta", "gamma"))
        took.append(one_loss(lab, "cut", victim, number, "3"))
        assert job(lab)["restarts"] == 1, "no two of them are a legal size"
        lab.heal(victim)
        until(lambda: set(nodes(lab).values()) == {"up"}, "a node does not come back")
    return took


def test_a_lost_machine_is_replaced_without_a_folder_that_machines_share(machines: Lab) -> None:
    told("replaced", replaced(machines, 1))


@pytest.mark.slow
def test_lost_machines_are_replaced_again_and_again(machines: Lab) -> None:
    told("replaced", replaced(machines, TIMES))


@pytest.mark.slow
def test_machines_that_are_cut_off(machines: Lab) -> None:
    chance, times = random.Random(1), list[float]()
    for number in range(TIMES):
        victim = chance.choice(NAMES[1:])
        times.append(one_loss(machines, "cut", victim, number))
        machines.heal(victim)
        until(lambda: set(nodes(machines).values()) == {"up"}, "a node does not come back")
    told("cut", times)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(TIMES))
def test_a_machine_that_dies(machines: Lab, number: int) -> None:
    victim = random.Random(number).choice(NAMES[1:])
    told(f"killed {victim}", [one_loss(machines, "kill", victim, number)])
