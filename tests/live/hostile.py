"""A rank that says what nobody should: `python hostile.py PMI_FD|DQ_LINK`."""

from __future__ import annotations

import os
import random
import sys

LINES = 10_000
COMMANDS = (
    b"cmd=init",
    b"cmd=put",
    b"cmd=get key=a",
    b"cmd=barrier_in",
    b"mcmd=spawn",
    b"nprocs=9",
)
WORDS = (b'{"session": 1}', b'{"await": "x", "size": []}', b'{"go": -1}', b"[]", b"{", b"null")


def main() -> int:
    fd, rng = int(os.environ[sys.argv[1]]), random.Random(1)
    known = COMMANDS if sys.argv[1] == "PMI_FD" else WORDS
    for _ in range(LINES):
        line = bytearray(rng.choice(known) + rng.randbytes(rng.randrange(200)))
        try:
            os.write(fd, bytes(line).replace(b"\0", b"") + b"\n")
        except OSError:
            return 0  # nobody listens any more
    return 0


if __name__ == "__main__":
    sys.exit(main())
