"""A thousand small parameters in nested dictionaries, a few of which change each time."""

import resize_lib


def made():
    return {f"layer{i}": {f"p{j}": float(i + j) for j in range(25)} for i in range(40)}


def advance(model, s):
    layer = model[f"layer{s * 7 % 40}"]
    for j in range(0, 25, 1 + s % 4):
        layer[f"p{j}"] = layer[f"p{j}"] * 0.5 + s
    return sum(layer.values())


rs = resize_lib.session()
model = made()
total = 0.0
for step in rs.iterations(50):
    value = advance(model, step)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    other = made()
    print("sum", total, "expected", sum(3 * advance(other, s) for s in range(50)))
