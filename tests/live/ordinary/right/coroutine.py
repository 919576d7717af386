"""The loop in a coroutine, with a helper that is awaited."""

import asyncio

import resize_lib


async def read(step, state):
    await asyncio.sleep(0)
    state["reads"] += 1
    return step * state["reads"]


async def main():
    rs = resize_lib.session()
    state, total = {"reads": 0}, 0
    for step in rs.iterations(45):
        value = await read(step, state)
        total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
    if rs.rank == 0:
        print("sum", total, "expected", 3 * sum(k * (k + 1) for k in range(45)))


asyncio.run(main())
