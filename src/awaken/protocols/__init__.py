"""One package for each protocol of clients: decode, encode, routes.

A protocol maps requests to use cases of `services`, and events to its own frames; an encoder
depends only on the events. Protocols never import each other.
"""
