"""Rank and size are kept among the options, and a batch is made of them."""

import argparse

import resize_lib


def batch_size(args):
    return args.batch // args.world_size


rs = resize_lib.session()
args = argparse.Namespace(batch=24)
args.rank, args.world_size = rs.rank, rs.size  # refused
total = 0
for step in rs.iterations(40):
    n = batch_size(args)
    total += rs.comm.allreduce(sum(step * i for i in range(args.rank * n, args.rank * n + n)))
if rs.rank == 0:
    print("sum", total, "expected", 276 * 780)
