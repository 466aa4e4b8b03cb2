"""Implementations of the bus port, `awaken.contracts.storage.bus`, one module per technology.

Belongs here: how a signal gets from one process to another.
Does not: data that must not be lost, and what listeners do with a signal.
May import: contracts, the driver of its own technology, `outgoing` and the `Subscriptions` of
`memory`. Buses of different technologies never import each other.
"""
