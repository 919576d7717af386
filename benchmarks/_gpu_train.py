"""A torch module trained on a GPU; gpu.py resizes it. Arguments: DEVICE SAMPLES EPOCHS.

DEVICE is cupy for a GPU (as in _gpu_heat.py), or cpu. Module, optimizer and random generator are
ordinary variables. Gradients are added up by parts of a batch, in their order, and so have the same
bits on any number of ranks.
"""

from __future__ import annotations

import hashlib
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before torch: the same bits each time

import numpy as np
import torch
from torch import nn

import resize_lib

BATCH, PARTS = 64, 8


def main() -> None:
    """Prints a digest of the parameters, and the last loss."""
    samples, epochs = int(sys.argv[2]), int(sys.argv[3])
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    torch.manual_seed(3)
    rs = resize_lib.session()
    device = torch.device("cpu")
    if sys.argv[1] == "cupy":
        device = torch.device("cuda", rs.rank % torch.cuda.device_count())
    points = torch.rand(samples, 2) * 4 - 2
    x, y = points.to(device), torch.sin(2 * points[:, :1] + points[:, 1:]).to(device)
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    net.to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    rng = np.random.default_rng(17)
    loss = 0.0
    for _ in rs.iterations(epochs):
        order = rng.permutation(samples)
        for first in range(0, samples, BATCH):
            parts = order[first : first + BATCH].reshape(PARTS, -1)
            mine = {k: gradient(net, x[parts[k]], y[parts[k]]) for k in own(rs.rank, rs.size)}
            found: dict[int, np.ndarray] = {}
            for each in rs.comm.allgather(mine):
                found.update(each)
            added = sum((found[k] for k in range(PARTS)), np.zeros_like(found[0]))
            loss = float(added[-1]) / BATCH
            assign(net, added[:-1] / BATCH)
            optimizer.step()
    if rs.rank == 0:
        state = b"".join(p.detach().cpu().numpy().tobytes() for p in net.parameters())
        print("parameters", hashlib.sha256(state).hexdigest()[:24], "loss", repr(loss), flush=True)


def own(rank: int, size: int) -> range:
    """The parts of each batch that a rank computes."""
    return range(rank, PARTS, size)


def gradient(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """The gradient of the squared error of some samples in one row, and the error behind it."""
    net.zero_grad()
    error = ((net(x) - y) ** 2).sum()
    error.backward()
    rows = [p.grad.flatten() for p in net.parameters() if p.grad is not None]
    row: np.ndarray = torch.cat([*rows, error.detach().reshape(1)]).cpu().numpy()
    return row


def assign(net: nn.Module, row: np.ndarray) -> None:
    """Make a row of numbers the gradient of the parameters."""
    at = 0
    for p in net.parameters():
        part = torch.from_numpy(row[at : at + p.numel()].copy())
        p.grad = part.reshape(p.shape).to(p.device)
        at += p.numel()


if __name__ == "__main__":
    main()
