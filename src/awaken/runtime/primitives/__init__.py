"""Small pieces of concurrency and time that know nothing of runs.

Timers, signals, latches, owned tasks, cancellation, the clock.
"""
