"""Outgoing HTTP: the connection pool, the URL guard, OAuth tokens, the decoder of event streams.

And the hosts of a database, which its store and its bus connect to.

Belongs here: what every client of another server needs, whatever server it is. Does not: a vendor's
format, a protocol, or what a failure means to the caller. May import: contracts.
"""
