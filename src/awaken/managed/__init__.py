"""Use cases of managed configuration: records, drafts, publishing, the head, secrets, audit.

It is generic over the kinds of records: which ones there are, and how they become agents, is
decided by ports that `bootstrap` implements. Start reading at `publishing.py`.
"""
