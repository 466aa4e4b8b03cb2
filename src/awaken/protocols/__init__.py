"""One package for each protocol that clients speak: decode, encode, routes.

A protocol turns requests into use cases of `services` and events into its own frames; encoders
are functions of the events. Protocols never import each other.
"""
