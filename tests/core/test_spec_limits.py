"""What a job may ask for: the last that makes sense, and the first that makes none."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model.errors import InvalidSpec
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.needs import CONSTRAINT_MAX, GPUS_MAX, MEMORY_BYTES_MAX, Needs, amount
from dq_server.core.model.sizes import (
    Configuration,
    configuration,
    configurations,
    nearest_square,
    size_chain,
)
from dq_server.core.model.spec import RETRY_MAX, Protection

INF = float("inf")
RIGID = JobKind.RIGID, configuration(2), (configuration(2),)
MALLEABLE = JobKind.MALLEABLE, configuration(2), configurations([1, 2, 4])
EVOLVING = JobKind.EVOLVING, configuration(1), configurations([1, 3])
STEPS = ((10, 1), (20, 3))
PARTNER, RECIPE = Protection("partner"), Protection("recipe")


def spec(kind: tuple[Any, ...] = RIGID, /, **more: Any) -> JobSpec:
    return JobSpec("job", *kind, **more)


GOOD = [
    spec(),
    spec(MALLEABLE, other_grids=(Configuration(4, 1),)),
    *(spec(retry=retry) for retry in (0, RETRY_MAX)),
    *(spec(watch=action) for action in ("", "warn", "abort", "kill")),
    *(spec(**{name: 0.0}) for name in ("walltime_s", "estimate_s")),
    spec(EVOLVING, profile=STEPS, walltime_s=30.0),
    spec(after=(1, 2), after_any=(3,), after_not=(4,)),
    spec(parts=((1, ("a",)), (1, ("b",)))),
    spec(needs=Needs(MEMORY_BYTES_MAX, GPUS_MAX, "a" * CONSTRAINT_MAX)),
    spec(needs=Needs(0, 0, "(a|b)&c")),
    *(spec(protection=Protection("disk", every_points=n)) for n in (None, 1)),
    *(spec(protection=Protection("disk", every_s=s)) for s in (None, 0.001)),
    *(spec(protection=Protection("disk", budget=part)) for part in (0.001, 1.0)),
    spec(protection=Protection("partner", folder="/tmp", restarts=0)),
    *(spec(kind, recipe="text", protection=RECIPE) for kind in (RIGID, MALLEABLE)),
]
BAD = [
    (JobSpec("job", RIGID[0], RIGID[1], ()), "no legal size"),
    (JobSpec("job", RIGID[0], configuration(3), RIGID[2]), "size 3 is not among"),
    (JobSpec("job", MALLEABLE[0], configuration(3), MALLEABLE[2]), "size 3 is not among"),
    (JobSpec("job", MALLEABLE[0], Configuration(4, 1), MALLEABLE[2]), "size 4 is not among"),
    (JobSpec("job", RIGID[0], *MALLEABLE[1:]), "exactly one size"),
    (spec(EVOLVING, other_grids=(Configuration(3, 1),)), "only a malleable job"),
    (spec(retry=-1), "retries"),
    (spec(retry=RETRY_MAX + 1), "retries"),
    (spec(watch="wait"), "watch is"),
    *((spec(**{n: -0.001}), "positive") for n in ("walltime_s", "estimate_s")),
    *((spec(**{n: float("nan")}), "positive") for n in ("walltime_s", "estimate_s")),
    (spec(MALLEABLE, profile=STEPS), "kind evolving"),
    (spec((EVOLVING[0], configuration(3), EVOLVING[2]), profile=STEPS), "first step"),
    (spec(EVOLVING, profile=STEPS, walltime_s=29.9), "shorter than the profile"),
    (spec(EVOLVING, profile=STEPS, protection=PARTNER), "protected"),
    (spec(EVOLVING, profile=STEPS, needs=Needs(1)), "planned by processors alone"),
    (spec(after=(1, 2), after_not=(2,)), "job 2 is to end in two ways"),
    (spec(after=(5, 3), after_any=(3,), after_not=(5,)), "job 3 is to end in two ways"),
    (spec(MALLEABLE, parts=((2, ("a",)),)), "several programs is rigid"),
    (spec(parts=((1, ("a",)), (2, ("b",)))), "have 3 ranks, the job 2"),
    *((spec(needs=Needs(memory=n)), "memory") for n in (-1, MEMORY_BYTES_MAX + 1)),
    *((spec(needs=Needs(gpus=n)), "gpus") for n in (-1, GPUS_MAX + 1)),
    (spec(needs=Needs(constraint="a" * (CONSTRAINT_MAX + 1))), "at most"),
    (spec(needs=Needs(constraint="(" * (CONSTRAINT_MAX // 10 + 1))), "parentheses"),
    *((spec(needs=Needs(constraint=c)), "constraint") for c in ("a b", "a&", "|a", "(a", "a)")),
    (spec(protection=Protection("tape")), "unknown protection"),
    (spec(protection=Protection("disk", every_points=0)), "remap points"),
    *((spec(protection=Protection("disk", every_s=s)), "seconds") for s in (0.0, INF)),
    (spec(protection=Protection("disk", folder="tmp")), "absolute"),
    (spec(protection=Protection("disk", folder="/a\0b")), "NUL"),
    *((spec(protection=Protection("disk", budget=b)), "budget") for b in (0.0, 1.001)),
    (spec(protection=Protection("disk", budget=0.5, every_points=1)), "give either"),
    (spec(protection=Protection("disk", budget=0.5, every_s=1.0)), "give either"),
    (spec(protection=Protection("disk", restarts=-1)), "restarts"),
    (spec(recipe="text"), "by its own checkpoints, and no other"),
    (spec(recipe="text", protection=PARTNER), "by its own checkpoints, and no other"),
    (spec(protection=RECIPE), "by its own checkpoints, and no other"),
    (spec(EVOLVING, recipe="text", protection=RECIPE), "not evolving"),
    (spec(recipe="text", protection=RECIPE, input="/in"), "no --input"),
]


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_the_last_that_makes_sense_is_accepted(number: int) -> None:
    GOOD[number].validate()


@pytest.mark.parametrize("number", range(len(BAD)))
def test_the_first_that_makes_none_is_refused(number: int) -> None:
    wrong, why = BAD[number]
    with pytest.raises(InvalidSpec, match=why):
        wrong.validate()


@pytest.mark.parametrize(
    ("kind", "smallest", "largest", "multiple", "sizes"),
    [
        ("square", 1, 12, 1, (1, 2, 4, 6, 9, 12)),
        ("square", 2, 11, 1, (2, 4, 6, 9)),
        ("powers", 1, 8, 1, (1, 2, 4, 8)),
        ("powers", 3, 7, 1, (4,)),
        ("multiple", 1, 9, 3, (3, 6, 9)),
        ("multiple", 1, 1, 1, (1,)),
    ],
)
def test_chains_of_sizes(
    kind: Any, smallest: int, largest: int, multiple: int, sizes: tuple[int, ...]
) -> None:
    assert size_chain(kind, smallest, largest, multiple) == sizes


@pytest.mark.parametrize(
    ("kind", "smallest", "largest", "multiple"),
    [("square", 0, 4, 1), ("powers", 3, 2, 1), ("multiple", 1, 4, 0), ("primes", 1, 4, 1)],
)
def test_no_chain(kind: Any, smallest: int, largest: int, multiple: int) -> None:
    with pytest.raises(InvalidSpec):
        size_chain(kind, smallest, largest, multiple)


def test_grids() -> None:
    assert [str(nearest_square(n)) for n in (1, 2, 6, 7, 12, 16)] == [
        "1x1", "1x2", "2x3", "1x7", "3x4", "4x4",
    ]  # fmt: skip
    assert (configuration(6), configuration("6x1")) == (Configuration(2, 3), Configuration(6, 1))
    for word in (0, -1, "0x2", "2x0", "2x", "x2", "2x2x2", "1234567x1"):
        with pytest.raises(InvalidSpec):
            configuration(word)


def test_amounts_of_memory_for_people() -> None:
    counts = (0, 1023, 1024, 1536, 1 << 30, 1 << 50, 1 << 60)
    assert [amount(count) for count in counts] == [
        "0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "1 GiB", "1 PiB", "1024 PiB",
    ]  # fmt: skip


def test_the_number_of_sizes_is_bounded_wherever_they_come_from() -> None:
    with pytest.raises(InvalidSpec, match="raise the multiple or lower the max"):
        size_chain("multiple", 1, 10**9)
    legal = tuple(Configuration(1, n) for n in range(1, 20_002))
    spec = JobSpec("job", JobKind.MALLEABLE, legal[0], legal)
    with pytest.raises(InvalidSpec, match="more than 20000 legal sizes and grids: give fewer"):
        spec.validate()
