"""Nested loops in two functions, each with locals that survive."""

import resize_lib


def inner(rs, weights, epoch):
    loss, decay = 0.0, 1.0
    for batch in rs.iterations(6):
        gradient = rs.comm.allreduce(sum(weights[i % 3] for i in range(rs.rank, 6, rs.size)))
        weights[batch % 3] -= 0.01 * gradient * decay
        decay *= 0.9
        loss += gradient * (batch + 1)
    return loss


def outer(rs):
    weights, losses, lowest, stale = [1.0, 2.0, 3.0], {}, None, 0
    for epoch in rs.iterations(8):
        loss = inner(rs, weights, epoch)
        losses[f"epoch {epoch}"] = loss
        if lowest is None or loss < lowest:
            lowest, stale = loss, 0
        else:
            stale += 1
    return sum(losses.values()) + lowest + stale + sum(weights)


def serial():
    w, losses, lowest, stale = [1.0, 2.0, 3.0], [], None, 0
    for epoch in range(8):
        loss, decay = 0.0, 1.0
        for batch in range(6):
            gradient = 2 * sum(w)
            w[batch % 3] -= 0.01 * gradient * decay
            decay *= 0.9
            loss += gradient * (batch + 1)
        losses.append(loss)
        stale = 0 if lowest is None or loss < lowest else stale + 1
        lowest = loss if lowest is None else min(lowest, loss)
    return sum(losses) + lowest + stale + sum(w)


rs = resize_lib.session()
result = outer(rs)
if rs.rank == 0:
    print("sum", result, "expected", serial())
