"""State that goes through a file: rank 0 writes it, all read it in the next iteration."""

import json
import os
import tempfile

import resize_lib

rs = resize_lib.session()
path = os.path.join(tempfile.gettempdir(), "checkpoint_file.json")
total = 0
for step in rs.iterations(40):
    if step == 0:
        state = {"x": 1}
    else:
        with open(path) as file:
            state = json.load(file)
    state["x"] = state["x"] * 7 % 1013
    total += rs.comm.allreduce(sum(state["x"] for _ in range(rs.rank, 3, rs.size)))
    if rs.rank == 0:
        with open(path, "w") as file:
            json.dump(state, file)
    rs.comm.Barrier()
if rs.rank == 0:
    os.remove(path)
    print("sum", total, "expected", 3 * sum(pow(7, k + 1, 1013) for k in range(40)))
