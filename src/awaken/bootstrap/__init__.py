"""The composition root: the only place that names concrete stores, providers and backends.

Belongs here: assembling a runtime from what the developer wrote. Not here: behaviour.
"""
