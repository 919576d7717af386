"""Goes on from a checkpoint of its own, OWN_CHECKPOINT, when it is started again."""

import json
import os
import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
path = os.environ["OWN_CHECKPOINT"]


def load():
    if not os.path.exists(path):
        return {"step": 0, "total": 0, "history": []}
    with open(path) as file:
        return json.load(file)


state = comm.bcast(load() if comm.rank == 0 else None)
first = state["step"]
for step in rs.iterations(60 - first):
    part = sum((first + step) * i for i in range(comm.rank, 6, comm.size))
    state["total"] += comm.allreduce(part)
    state["history"] = [*state["history"][-4:], state["total"] % 97]
    state["step"] += 1
    if comm.rank == 0 and step % 3 == 2:
        with open(f"{path}.new", "w") as file:
            json.dump(state | {"pid": os.getpid()}, file)
        os.replace(f"{path}.new", path)
    time.sleep(0.03)
if comm.rank == 0:
    total, sums = 0, []
    for k in range(60):
        total += 15 * k
        sums.append(total % 97)
    print("sum", state["total"] + sum(state["history"]), "expected", total + sum(sums[-5:]))
