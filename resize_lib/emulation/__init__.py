"""An emulated node, as seen from inside one rank: paced computing and messages that cost time.

This is the *paced* mechanism: it needs no privileges, because the library itself makes the rank
wait. What it slows is what it knows of: compute sections (`with rs.compute()`, the kernels' own, or
the whole iteration of an application that marks none) and messages sent over the session's
communicators. Everything else runs at the speed of the machine: start-up, packing and copying,
Python between the sections, files. How nodes are made and slowed from outside: node/emulation.

pacing.py        where computing is marked, and the pacer that stretches it to a share of a core
link.py          one node's link: latency, rate, one message after the other in each direction
communicator.py  a communicator whose messages take as long as that link makes them
node.py          what a session calls: the emulated node of one rank
probe.py         a program that measures what the nodes of a cluster really give
"""

# Imports nothing: resize_lib.grid needs pacing.py, and node.py needs resize_lib.grid.
