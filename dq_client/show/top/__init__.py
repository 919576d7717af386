"""`dq top`: jobs, nodes and decisions on the whole terminal, as `dq web` has them in a browser.

`rows.py` makes the lines (no terminal), `listing.py` shows as many of them as there is room for,
`detail.py` shows one job, `app.py` puts them together. What is known of the cluster comes from
following/, as for the page. textual draws; nothing else of DQ needs it.
"""
