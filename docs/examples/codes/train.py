"""A network trained with torch (`pip install torch`): each rank takes its part of every batch.

Model, optimizer, schedule, random generator and history are ordinary variables. They are the same
on all ranks, and a rank that joins gets them from the job.

    dq submit --sizes 1,2,4 -- python train.py [SAMPLES EPOCHS]
"""

import sys

import numpy as np
import torch
from mpi4py import MPI
from torch import nn

import resize_lib

SAMPLES, EPOCHS = (int(word) for word in sys.argv[1:] or (960, 60))
BATCH = 48

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(11)
x = torch.rand(SAMPLES, 2) * 4 - 2
y = torch.sin(2 * x[:, :1]) * torch.cos(x[:, 1:])

rs = resize_lib.session()
comm = rs.comm
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)
rng = np.random.default_rng(7)
history = []

for epoch in rs.iterations(EPOCHS):
    order = rng.permutation(SAMPLES)
    total = 0.0
    for first in range(0, SAMPLES, BATCH):
        mine = order[first : first + BATCH][comm.rank :: comm.size]
        optimizer.zero_grad()
        loss = ((model(x[mine]) - y[mine]) ** 2).sum() / BATCH
        loss.backward()
        for parameter in model.parameters():
            comm.Allreduce(MPI.IN_PLACE, parameter.grad.numpy())
        optimizer.step()
        total += comm.allreduce(loss.item())
    schedule.step()
    history.append(total * BATCH / SAMPLES)
    if epoch % 20 == 0 and comm.rank == 0:
        print(f"epoch {epoch} on {comm.size}: loss {history[-1]:.9f}", flush=True)

if comm.rank == 0:
    rate = optimizer.param_groups[0]["lr"]
    print(
        f"loss {history[-1]:.9f}, sum {sum(history):.9f} over {len(history)} epochs,"
        f" learning rate {rate}",
        flush=True,
    )
