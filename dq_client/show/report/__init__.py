"""Reports: an HTML page about jobs that ran, and terminal displays of jobs that run.

`collect.collect(connection, job_id)` asks the server for the data, `data.py` types and checks them,
`page.write_report(path, data)` writes the page (components.py: its tables and cards, built of
markup.py; pictures.py: its pictures, drawn by the live page's modules). `live_view.GrowthView`
follows one job, watch_events.py computes the events of `dq watch`; terminal.py draws with rich.
"""
