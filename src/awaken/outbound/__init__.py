"""What leaves this process over HTTP: the pool of connections, the guard, the reader of streams.

Belongs here: whatever every client of somebody else's server needs, whoever it calls, such as the
tokens that say who we are there. Does not: a vendor's format, a protocol, or what a failure means
to its caller. May import: contracts.
"""
