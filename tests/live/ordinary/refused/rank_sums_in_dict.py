"""Totals by name that each rank adds up for itself, in a function; merged after the loop."""

import collections

import resize_lib

stats = collections.Counter()  # refused


def work(i, step):
    stats["items"] += 1  # refused
    stats["points"] += i * step  # refused


def main():
    rs = resize_lib.session()
    for step in rs.iterations(40):
        for i in range(rs.rank, 10, rs.size):
            work(i, step)
    merged = collections.Counter()
    for part in rs.comm.allgather(dict(stats)):
        merged.update(part)
    if rs.rank == 0:
        print("sum", merged["items"] + merged["points"], "expected", 400 + 45 * 780)


main()
