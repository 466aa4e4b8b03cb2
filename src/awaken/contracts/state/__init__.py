"""Typed state: keys, updates and scopes, context messages, the profile."""
