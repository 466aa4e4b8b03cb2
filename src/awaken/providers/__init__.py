"""Model vendors behind one port, `contracts.inference.ModelClient`.

Belongs here: one folder per wire format (`encode` and `decode`, both pure), the HTTP client that
all of them share (`http`), prices. Does not: retries, the choice of a model, the loop, prompts, or
anything that a run decides. May import: contracts. Formats never import each other or the runtime.
"""
