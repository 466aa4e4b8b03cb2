"""How developers declare agents and tools: functions, types and docstrings become contracts.

Belongs here: work done once, when something is declared, so that a call is cheap.
Does not: running a model, a loop or a store, and anything that is known only during a run.
May import: contracts, msgspec, and lazily jsonschema-rs. Pydantic is used only when the
user's own annotations are pydantic models, and is never imported from here.
"""
