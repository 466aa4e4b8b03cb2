"""The store for any SQL database: one set of statements, one meaning, two thin adapters.

Everything here is written against `SqlSession`. SQLite runs it in its own threads, where no
await ever suspends; Postgres runs it on the event loop.
"""
