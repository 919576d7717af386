"""Early stopping in another file: only the reduced loss goes into it."""

import time
import resize_lib
from _file_of_early_stop import EarlyStop, Model

rs = resize_lib.session()
x = rs.array("x", 24, init=lambda i: 1.0 * i)
model, stop, epochs = Model(), EarlyStop(), 0
for epoch in rs.iterations(40):
    loss = rs.comm.allreduce(model.loss(x.local))
    time.sleep(0.02)
    if stop(loss):
        break
    model.w += 0.05
    epochs += 1
if rs.rank == 0:
    print("sum", epochs, "expected", 25)
