"""A state machine with an Enum, an IntFlag and a dictionary of how long each state was."""

import enum
import time

import resize_lib


class Phase(enum.Enum):
    WARM_UP = "warm up"
    SAMPLE = "sample"
    REST = "rest"


class Mark(enum.IntFlag):
    NONE = 0
    HOT = 1
    LONG = 2


NEXT = {Phase.WARM_UP: Phase.SAMPLE, Phase.SAMPLE: Phase.REST, Phase.REST: Phase.SAMPLE}
LENGTH = {Phase.WARM_UP: 5, Phase.SAMPLE: 4, Phase.REST: 3}


def walk(phase, age, marks):
    age += 1
    if age == LENGTH[phase]:
        phase, age, marks = NEXT[phase], 0, marks ^ Mark.HOT
    return phase, age, marks | (Mark.LONG if age == 3 else Mark.NONE)


rs = resize_lib.session()
phase, age, marks = Phase.WARM_UP, 0, Mark.NONE
samples = dict.fromkeys(Phase, 0)
total = 0
for step in rs.iterations(50):
    if phase is Phase.SAMPLE:
        total += rs.comm.allreduce(sum(step * i for i in range(rs.rank, 5, rs.size)))
    samples[phase] += 1 + int(marks)
    phase, age, marks = walk(phase, age, marks)
    time.sleep(0.02)
if rs.rank == 0:
    p, a, m, expected, seen = Phase.WARM_UP, 0, Mark.NONE, 0, dict.fromkeys(Phase, 0)
    for step in range(50):
        expected += 10 * step * (p is Phase.SAMPLE)
        seen[p] += 1 + int(m)
        p, a, m = walk(p, a, m)
    weigh = lambda d: sum(1000 ** (i + 1) * v for i, v in enumerate(d.values()))
    print("sum", total + weigh(samples), "expected", expected + weigh(seen))
