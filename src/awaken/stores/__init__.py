"""Durable storage behind the ports of `awaken.contracts.storage.store`, one folder per technology.

Belongs here: how threads, runs, commits, events, tickets and profile entries are stored.
Does not: deciding what to commit, retrying, or any knowledge of the loop.
May import: contracts and the driver of its own technology. Stores never import each other.
A new store is done when `awaken.testing.store_conformance` passes on it.
"""
