"""The server: one ASGI app made of the protocols' routes, with who may call what.

It knows no concrete protocol, store or agent; `bootstrap` puts them together.
"""
