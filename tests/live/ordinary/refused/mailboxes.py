"""Messages are sorted into a box for each rank in one iteration, and read in the next."""

import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
boxes = {r: [] for r in range(comm.size)}  # refused
boxes[0] = [1]
count = 0
for t in rs.iterations(40):
    inbox = boxes.get(comm.rank, [])
    out = [(m * 7 + t) % 1000 for m in inbox] + ([t] if comm.rank == 0 else [])
    count += comm.allreduce(sum(inbox))
    messages = sorted(sum(comm.allgather(out), []))
    boxes = {r: messages[r :: comm.size] for r in range(comm.size)}  # refused
    time.sleep(0.005)
if comm.rank == 0:
    box, want = [1], 0
    for t in range(40):
        want += sum(box)
        box = [(m * 7 + t) % 1000 for m in box] + [t]
    print("sum", count, "expected", want)
