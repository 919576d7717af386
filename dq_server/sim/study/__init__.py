"""Studies: logs x policies x variants x shares x seeds in one command.

file.py     the study's TOML file, checked before anything is simulated
runs.py     one simulation, its cached result, and many of them in parallel processes
results.py  tables of all runs, and what figures need of them
figures.py  figures for a paper
report.py   the report with the paragraph on methods
command.py  `dq sim study`
"""
