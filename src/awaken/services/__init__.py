"""Use cases: what can be asked of agents, whoever asks and over whatever wire.

Nothing here knows HTTP or a protocol; everything above it asks through a `TenantView`.
"""
