"""The store over any SQL database: one set of statements, one meaning, two thin adapters.

Everything here is written against `Session`. SQLite drives it inside its writer thread, where no
await ever suspends; Postgres drives it on the event loop.
"""
