"""Implementations of the bus port, `awaken.contracts.storage.bus`, one module per technology.

Belongs here: how a signal gets from one process to another.
Does not: data that must not be lost, and what listeners do with a signal.
May import: contracts and the driver of its own technology. Buses never import each other.
"""
