"""An emulated node, as seen from inside one rank: paced computing and messages that cost time.

This is the *paced* mechanism: it needs no privileges, because the library itself makes the rank
wait. What it slows is what it knows of: compute sections (`with rs.compute()`, the kernels' own, or
the whole iteration of an application that marks none) and messages sent over the session's
communicators. Everything else runs at the speed of the machine: start-up, packing and copying,
Python between the sections, files.

pacer.py    stretches compute sections to the node's share of a core
board.py    memory shared by the ranks of a job: when each message left
link.py     one node's link: latency, rate, one message after the other in each direction
shaped.py   a communicator whose messages take as long as that link makes them
install.py  what a session calls
"""

from resize_lib.emulation.install import Emulation, LinkRate
from resize_lib.emulation.link import Link
from resize_lib.emulation.pacer import SharePacer
from resize_lib.emulation.shaped import ShapedComm

__all__ = ["Emulation", "Link", "LinkRate", "ShapedComm", "SharePacer"]
