"""Small building blocks for concurrency and time that do not depend on runs.

Timers, signals, latches, owned tasks, cancellation, the clock.
"""
