"""Carriers of signals behind the port of `awaken.contracts.storage.bus`, one module per technology.

Belongs here: how a signal gets from one process to another.
Does not: anything that must not be lost, or any knowledge of what a signal leads to.
May import: contracts and the driver of its own technology. Buses never import each other.
"""
