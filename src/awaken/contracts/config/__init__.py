"""Managed configuration as data: records, publications, the head, drafts, audit, and its ports."""
