"""How much history a request carries: estimates, truncation, and compaction by summary.

Belongs here: what is sent of a transcript, and the marks that say so. Not here: building
requests, calling the model for an answer, durable storage.
"""
