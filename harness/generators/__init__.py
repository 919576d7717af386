"""Workload generators: seeded, so the same numbers give the same workload."""
