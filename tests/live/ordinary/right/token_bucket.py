"""A rate limiter with simulated time: datetime, timedelta and an Enum as state."""

from datetime import datetime, timedelta
from enum import Flag, auto

import resize_lib


class Mark(Flag):
    NONE = 0
    BURST = auto()
    EMPTY = auto()
    LATE = auto()


def run(loop, add):
    now, tokens, seen, refused = datetime(2024, 2, 28, 23, 0), 5.0, Mark.NONE, []
    last = now
    for k in loop:
        now += timedelta(minutes=add(k) % 13)
        tokens = min(8.0, tokens + (now - last) / timedelta(minutes=10))
        last = now
        if tokens >= 1:
            tokens -= 1
            seen |= Mark.BURST if tokens > 6 else Mark.NONE
        else:
            refused.append(now)
            seen |= Mark.EMPTY
        if now.day == 1:
            seen |= Mark.LATE
    return len(refused) * 100 + seen.value + now.hour + sum(r.minute for r in refused)


rs = resize_lib.session()
got = run(
    rs.iterations(120), lambda k: rs.comm.allreduce(sum(k * i for i in range(rs.rank, 5, rs.size)))
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(120), lambda k: 10 * k))
