"""From what was written to what can run: registries, immutable snapshots, the resolve pipeline.

Belongs here: lookup, validation, compiling an agent. Not here: running it.
"""
