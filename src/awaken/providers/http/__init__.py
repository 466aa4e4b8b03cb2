"""What every wire format needs to reach its vendor: the client, its options, its failures.

Belongs here: bytes in, bytes out, and which error a failure is. Does not: any vendor's format.
"""
