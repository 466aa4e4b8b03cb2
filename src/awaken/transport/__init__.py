"""HTTP without any protocol: routes with their policies, bodies, refusals, event streams.

Protocols describe their routes with `ApiRoute` and encode events; the server serves them.
"""
