"""Epochs and batches: histories in nested loops, an average over each epoch."""

import resize_lib

rs = resize_lib.session()
epoch_losses = []
best = float("inf")
seen = 0
for epoch in rs.iterations(8):
    running = 0.0
    batches = []
    for batch in rs.iterations(6):
        loss = rs.comm.allreduce(sum(1.0 / (1 + i + batch) for i in range(rs.rank, 8, rs.size)))
        loss /= 1 + seen
        running += loss
        batches.append(loss)
        seen += 8
    mean = running / 6
    epoch_losses.append(mean + max(batches))
    best = min(best, mean)
if rs.rank == 0:
    total, lowest, count = 0.0, float("inf"), 0
    for epoch in range(8):
        losses = []
        for batch in range(6):
            losses.append(sum(1.0 / (1 + i + batch) for i in range(8)) / (1 + count))
            count += 8
        total += sum(losses) / 6 + max(losses)
        lowest = min(lowest, sum(losses) / 6)
    print("sum", sum(epoch_losses) + best + seen, "expected", total + lowest + count)
