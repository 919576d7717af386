"""Many seeds of the simulation of the whole, with progress: `python tests/dst --seeds 100000`.

Goes on after a seed that fails, so that one run finds all of them; exit code 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.dst.paired import PairedWorld
from tests.dst.world import World

EVERY = 1000


def main() -> int:
    """Run them one after the other."""
    parser = argparse.ArgumentParser(prog="python tests/dst", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--standby", action="store_true", help="worlds of paired.py")
    o = parser.parse_args()
    made = PairedWorld if o.standby else World
    begin, wrong = time.monotonic(), []
    for count, seed in enumerate(range(o.first, o.first + o.seeds), 1):
        try:
            made(seed).run()
        except Exception as e:
            wrong.append(seed)
            print(f"seed {seed}: {type(e).__name__}: {e}", flush=True)
        if count % EVERY == 0 or count == o.seeds:
            took_s = time.monotonic() - begin
            print(
                f"{count} of {o.seeds} seeds, {len(wrong)} wrong, {took_s:.0f} s,"
                f" {count / took_s:.0f} a second",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
