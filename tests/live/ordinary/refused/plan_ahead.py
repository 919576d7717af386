"""A plan for the next iteration: which rank does which task, made of the costs of this one."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def deal(costs):
    plan, load = {}, [0] * comm.size
    for task in sorted(range(12), key=lambda t: -costs[t]):
        rank = load.index(min(load))
        plan[task] = rank
        load[rank] += costs[task]
    return plan


costs, total = [1] * 12, 0
plan = None  # refused
for step in rs.iterations(40):
    if plan is None:
        plan = deal(costs)  # refused
    total += comm.allreduce(sum(step * t for t in range(12) if plan[t] == comm.rank))
    costs = [1 + (step * t) % 5 for t in range(12)]
    plan = deal(costs)
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780)
