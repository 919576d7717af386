"""The journal on disk: written, checked, copied, restored, and shortened by snapshots."""
