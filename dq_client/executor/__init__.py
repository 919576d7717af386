"""`concurrent.futures` on workers that come and go (docs/workers.md)."""
