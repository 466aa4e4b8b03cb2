"""Memory and knowledge: what is remembered about whom, where it comes from, and where it is kept.

Belongs here: the records, the errors, the port of an engine (`engine`), the port of an embedding
model, and what plugins and hosts call (`access`). Does not: how anything is stored or ranked.
"""
