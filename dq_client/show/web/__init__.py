"""`dq web`: the cluster live in a browser (docs/web.md). A process of its own with a viewer's key.

process.py    the process: its port, its token, its end
gate.py       who is let in
limits.py     how many connections, how silent and how slow
site.py       the addresses: page, state, events, why, logs, metrics
metrics.py    figures for Prometheus
static/       the page: plain files, nothing to build

What it shows is kept by a follower of the server (show/feed).
"""
