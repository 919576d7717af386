"""The scheduler: pure code; time is a number handed in, state changes only in `handle`."""
