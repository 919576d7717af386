"""argparse with a dataclass of settings, logging to a file by rank 0, a warm-up that ends."""

import argparse
import logging
import os
import tempfile
from dataclasses import dataclass

import resize_lib


@dataclass
class Settings:
    steps: int = 50
    rate: float = 1.0
    warm: bool = True
    seen: int = 0

    def decay(self, step):
        self.rate *= 0.9 if step % 5 == 4 else 1.0
        if self.warm and step >= 10:
            self.warm, self.rate = False, self.rate * 2


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--verbose", action="store_true")
args = parser.parse_args([])
rs = resize_lib.session()
log = logging.getLogger("train")
log.setLevel(logging.INFO if rs.rank == 0 else logging.ERROR)
log.addHandler(logging.FileHandler(os.path.join(tempfile.gettempdir(), f"train{os.getpid()}.log")))
settings, loss = Settings(args.steps), 64.0
for step in rs.iterations(args.steps):
    g = rs.comm.allreduce(sum(loss * i / 60 for i in range(rs.rank, 4, rs.size)))
    loss -= 0.1 * settings.rate * g
    settings.decay(step)
    settings.seen += 1
    log.info("step %d loss %.3f rate %.3f", step, loss, settings.rate)
if rs.rank == 0:
    want, other = 64.0, Settings()
    for s in range(50):
        want -= 0.1 * other.rate * want * 6 / 60
        other.decay(s)
    print("w", loss + settings.seen + settings.rate, "expected", want + 50 + other.rate)
