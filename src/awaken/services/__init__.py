"""Use cases of the runtime, the same for every caller and every protocol.

Nothing here knows HTTP or a protocol; the layers above call it through a `TenantView`.
"""
