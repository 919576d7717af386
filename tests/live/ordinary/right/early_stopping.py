"""Early stopping: patience, the best loss and a copy of the weights it was found with."""

import copy

import resize_lib


def loss_of(weights, step):
    return abs(weights["w"] - 4.0) + 0.02 * (step % 5)


rs = resize_lib.session()
weights = {"w": 0.0}
best_loss, best_weights, wait, patience = None, None, 0, 12
for step in rs.iterations(60):
    weights["w"] += rs.comm.allreduce(sum(0.04 for _ in range(rs.rank, 4, rs.size)))
    loss = loss_of(weights, step)
    if best_loss is None or loss < best_loss:
        best_loss, best_weights, wait = loss, copy.deepcopy(weights), 0
    else:
        wait += 1
        if wait >= patience:
            break
if rs.rank == 0:
    w, low, kept, since = 0.0, None, None, 0
    for at in range(60):
        w += 0.16
        loss = loss_of({"w": w}, at)
        if low is None or loss < low:
            low, kept, since = loss, w, 0
        else:
            since += 1
            if since >= 12:
                break
    print("sum", best_weights["w"] + 100 * step + wait, "expected", kept + 100 * at + since)
