"""Many emulated nodes on one machine: which mechanism slows them, and does the machine carry them?

fitting.py     the shares of all nodes together must not exceed the machine
mechanism.py   paced or contained, and what each of them leaves out, in words
contained.py   a contained cluster: every node's namespaces, link and share of a core
"""
