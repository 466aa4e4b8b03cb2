"""Managed configuration over HTTP: records, drafts, publications, switches, secrets, audit.

Paths and shapes that Awaken for Rust has are the same here; its console works with this server.
"""
