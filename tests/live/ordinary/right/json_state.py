"""The state goes through JSON in each iteration, as a program with checkpoints does it."""

import json
import os
import tempfile

import resize_lib

rs = resize_lib.session()
state = {"step": 0, "levels": [1, 2, 3], "best": None, "names": {"a": 1}}
folder = tempfile.mkdtemp()
for step in rs.iterations(40):
    x = rs.comm.allreduce(sum(step * i for i in range(rs.rank, 4, rs.size)))
    state = json.loads(json.dumps(state))
    state["step"] += 1
    state["levels"] = sorted(state["levels"] + [x % 7])[-4:]
    state["names"][f"n{x % 5}"] = state["names"].get(f"n{x % 5}", 0) + x
    if state["best"] is None or x % 11 > state["best"][0]:
        state["best"] = [x % 11, step]
    if rs.rank == 0 and step % 10 == 9:
        with open(os.path.join(folder, f"state{step}.json"), "w") as f:
            json.dump(state, f)
if rs.rank == 0:
    kept = [json.load(open(os.path.join(folder, name)))["step"] for name in os.listdir(folder)]
    xs = [6 * s for s in range(40)]
    levels = [1, 2, 3]
    for x in xs:
        levels = sorted(levels + [x % 7])[-4:]
    top = max(x % 11 for x in xs)
    first = next(s for s, x in enumerate(xs) if x % 11 == top)
    want = 40 + sum(levels) + top + first + sum(xs) + 1 + sum(kept)
    got = (
        state["step"]
        + sum(state["levels"])
        + sum(state["best"])
        + sum(state["names"].values())
        + sum(kept)
    )
    print("sum", got, "expected", want)
