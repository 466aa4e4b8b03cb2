"""Outgoing HTTP: the connection pool, the URL guard, OAuth tokens, the decoder of event streams.

Belongs here: what every client of another server needs, whatever server it is. Does not: a vendor's
format, a protocol, or what a failure means to the caller. May import: contracts.
"""
