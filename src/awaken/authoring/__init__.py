"""How developers declare agents and tools: functions, types and docstrings become contracts.

Belongs here: work done once, at declaration time, so that each call is cheap.
Does not: running a model, a loop or a store, and everything that is known only during a run.
May import: contracts, msgspec, and lazily jsonschema-rs. Pydantic is used only when the
user's own annotations are pydantic models, and is never imported from here.
"""
