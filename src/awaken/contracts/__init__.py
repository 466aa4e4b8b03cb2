"""The shared vocabulary: frozen data, ports (`typing.Protocol`s) and errors.

Belongs here: what two or more layers must agree on.
Does not: I/O, locks, tasks, clocks, or defaults read from the environment.
May import: the standard library and msgspec. Nothing else of awaken.
"""
