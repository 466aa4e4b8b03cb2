"""Model vendors behind one port, `contracts.inference.ModelClient`.

Belongs here: one adapter per vendor, which turns requests and answers into the vendor's form.
Does not: retries across vendors, the loop, tools, prompts, or anything a run decides.
May import: contracts. Providers never import each other, the runtime or `testing`.
"""
