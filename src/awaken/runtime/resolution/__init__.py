"""From declared agents to runnable ones: registries, immutable snapshots, the resolve pipeline.

Belongs here: lookup, validation, compiling an agent. Not here: running it.
"""
