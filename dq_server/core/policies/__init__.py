"""Scheduling policies: one small class per file, chosen by name."""
