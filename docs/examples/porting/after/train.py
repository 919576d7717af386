"""A small neural network that learns to tell two spirals apart, data-parallel.

Every rank computes the gradient of its share of each batch; all apply the sum of them.

Arguments: EPOCHS FILE
"""

import sys

import numpy as np
from mpi4py import MPI

import resize_lib

SAMPLES = 2000
BATCH = 100
HIDDEN = 32
RATE = 0.05
MOMENTUM = 0.9


def spirals(count, rng):
    """Points of two spirals, and which of the two each is on."""
    label = rng.integers(0, 2, count)
    angle = 3 * np.pi * np.sqrt(rng.uniform(0.05, 1.0, count))
    turned = angle + np.pi * label
    points = np.stack([angle * np.cos(turned), angle * np.sin(turned)], axis=1) / 10
    return points + 0.01 * rng.standard_normal((count, 2)), label


def network(rng):
    """The parameters at the start: two hidden layers."""
    shapes = [(2, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]
    weights = [rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    return weights + [np.zeros(shape[1]) for shape in shapes]


def forward(parameters, x):
    """What each layer gives; last the logit."""
    w1, w2, w3, b1, b2, b3 = parameters
    h1 = np.tanh(x @ w1 + b1)
    h2 = np.tanh(h1 @ w2 + b2)
    return h1, h2, (h2 @ w3 + b3)[:, 0]


def gradient(parameters, x, label):
    """Sum of the losses of some samples, and its derivative by each parameter."""
    _, w2, w3, *_ = parameters
    h1, h2, logit = forward(parameters, x)
    loss = np.logaddexp(0.0, logit).sum() - logit[label == 1].sum()
    d3 = (1.0 / (1.0 + np.exp(-logit)) - label)[:, np.newaxis]
    d2 = (d3 @ w3.T) * (1.0 - h2**2)
    d1 = (d2 @ w2.T) * (1.0 - h1**2)
    layers = [x.T @ d1, h1.T @ d2, h2.T @ d3, d1.sum(axis=0), d2.sum(axis=0), d3.sum(axis=0)]
    return loss, layers


def main():
    epochs, file = int(sys.argv[1]), sys.argv[2]
    comm = MPI.COMM_WORLD
    rs = resize_lib.session()
    rng = np.random.default_rng(11)
    x, label = spirals(SAMPLES, rng)
    parameters = network(rng)
    velocity = [np.zeros_like(p) for p in parameters]
    losses = []
    for epoch in rs.iterations(epochs):
        order = rng.permutation(SAMPLES)
        total = 0.0
        for first in rs.iterations(range(0, SAMPLES, BATCH)):
            mine = order[first : first + BATCH][comm.rank :: comm.size]
            loss, layers = gradient(parameters, x[mine], label[mine])
            flat = np.concatenate([[loss], *(layer.ravel() for layer in layers)])
            comm.Allreduce(MPI.IN_PLACE, flat)
            total += flat[0]
            at = 1
            for p, v in zip(parameters, velocity, strict=True):
                v *= MOMENTUM
                v -= RATE / BATCH * flat[at : at + p.size].reshape(p.shape)
                p += v
                at += p.size
        losses.append(total / SAMPLES)
        if comm.rank == 0 and epoch % 10 == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.6f}", flush=True)
    right = (forward(parameters, x)[-1] > 0) == label
    if comm.rank == 0:
        print(f"{right.mean():.1%} of the samples are told apart", flush=True)
        np.savez(file, *parameters, losses=losses)


if __name__ == "__main__":
    main()
