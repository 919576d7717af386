"""Options read with argparse; one of them is changed on the way."""

import argparse

import resize_lib

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--rate", type=float, default=1.0)
parser.add_argument("--verbose", action="store_true")
args = parser.parse_args([])

rs = resize_lib.session()
total = 0.0
for step in rs.iterations(args.steps):
    total += rs.comm.allreduce(sum(args.rate * i for i in range(rs.rank, 5, rs.size)))
    if step % 20 == 19:
        args.rate *= 0.5
    if args.verbose and rs.rank == 0:
        print(step, args.rate)
if rs.rank == 0:
    print("sum", total, "expected", sum(10 * 0.5 ** (step // 20) for step in range(50)))
