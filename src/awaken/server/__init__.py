"""The server: one ASGI app made of the protocols' routes, with authentication and limits.

It knows no concrete protocol, store or agent; `bootstrap` assembles them.
"""
