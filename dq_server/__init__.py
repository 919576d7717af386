"""DQ server: the scheduler (core), the live server (live) and the simulator (sim)."""
