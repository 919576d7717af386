"""Engines: where the nodes of a pool come from, and where they go.

    port.py    what an engine is, and what it can say
    driver.py  compares the tickets of the state with what the engine has; off the server's loop
    link.py    the server's side: the tickets go to the driver, its news become events
    batch.py   nodes are jobs of a batch system

The pool itself (when to ask, when to give back, what a ticket is) is in the core: docs/pool.md.
How to write an engine: docs/engines.md.
"""
