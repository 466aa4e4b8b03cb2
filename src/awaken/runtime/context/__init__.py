"""How much history a request carries: estimates, truncation, and compaction by summary.

Belongs here: which messages of a transcript are sent, and the marks that record it. Not here:
building requests, calling the model for an answer, durable storage.
"""
