"""`dq web`: the cluster live in a browser (docs/web.md). A process of its own with a viewer's key.

running.py    which page of a home runs, and how it is stopped (standard library only)
process.py    the process: its port, its token, its end
follower.py   a thread that asks the server what has changed
model.py      what is known of the cluster, and what has changed for each reader
gate.py       who is let in
site.py       the addresses: page, state, events, why, logs, metrics
metrics.py    figures for Prometheus
static/       the page: plain files, nothing to build
"""
