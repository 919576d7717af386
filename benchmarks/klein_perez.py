"""CPU time of planning evolving applications, on one core.

    python -m benchmarks.klein_perez [--json] [--tests 1000] [--repeats 3]

First the 1000 tests x 6 algorithms of Klein & Pérez 2011 (target: at most 3 s in all, aim 1.3 s),
median of the repeats, beside what a test took in the paper. Then longer queues than the paper's,
to show how the time of one plan grows with its number of applications. Checking and measuring the
plans is not counted.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence

from dq_server.core.model.profile import FIT_RULES, EvolutionProfile, FitRule
from dq_server.sim.evolution import plan_offline
from harness.generators.klein_perez import N_NODES, KleinPerezRanges, draw_tests
from harness.klein_perez_paper import METRICS

SEED = 1
QUEUES = (50, 100, 200, 400, 800)


def cpu_s(tests: Sequence[Sequence[EvolutionProfile]], rule: FitRule, repeats: int) -> float:
    """Median CPU seconds to plan all tests."""
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        for queue in tests:
            plan_offline(queue, N_NODES, rule)
        spent.append(time.process_time() - started)
    return statistics.median(spent)


def growth(times: dict[int, float]) -> float:
    """Exponent k of time ~ applications**k between the smallest and the largest queue."""
    (few, short), *_, (many, long) = times.items()
    return math.log(long / short) / math.log(many / few)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.klein_perez")
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)

    tests = draw_tests(SEED, options.tests)
    whole = {name: cpu_s(tests, rule, options.repeats) for name, rule in FIT_RULES.items()}
    queues = {
        count: draw_tests(SEED, 1, KleinPerezRanges(applications=(count, count)))
        for count in QUEUES
    }
    one = {
        name: {count: cpu_s(queue, rule, options.repeats) for count, queue in queues.items()}
        for name, rule in FIT_RULES.items()
    }
    if options.json:
        print(
            json.dumps(
                {
                    "schema": 1,
                    "benchmark": "klein_perez",
                    "tests": options.tests,
                    "cpu_s": whole,
                    "cpu_s_total": sum(whole.values()),
                    "queue_cpu_s": one,
                    "growth_exponent": {name: growth(times) for name, times in one.items()},
                }
            )
        )
        return
    theirs = next(metric.printed for metric in METRICS if metric.field == "schedule_time_ms")
    print(f"{options.tests} tests, CPU time on one core, median of {options.repeats}")
    print(f"{'':8}{'total s':>10}{'ms a test':>12}{'paper, ms':>12}")
    for name, seconds in whole.items():
        per_test_ms = 1000 * seconds / options.tests
        print(f"{name:8}{seconds:10.3f}{per_test_ms:12.3f}{theirs[name][1]:12.1f}")
    print(f"{'all':8}{sum(whole.values()):10.3f}")
    print("\none queue of n applications, CPU ms")
    print(f"{'n':8}" + "".join(f"{count:10}" for count in QUEUES) + f"{'growth':>12}")
    for name, times in one.items():
        cells = "".join(f"{1000 * seconds:10.1f}" for seconds in times.values())
        print(f"{name:8}{cells}{'n**' + format(growth(times), '.2f'):>12}")


if __name__ == "__main__":
    main()
