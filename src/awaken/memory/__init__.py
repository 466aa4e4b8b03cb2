"""Memory and knowledge over any engine: what is kept, how it is cleaned, found and forgotten.

Belongs here: words of a text, fusion of rankings, cutting documents into passages, the bounds.
Does not: tables and indexes (`stores`), tools and injection (`extensions.memory`).
Start reading in `service`.
"""
