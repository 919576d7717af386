"""What a cluster has done, made readable: a page in one file, and live displays.

`page.write_report(path, data)` draws what `collect.collect(connection, job_id)` gathers;
`live_view.GrowthView` shows one job while it grows.
"""
