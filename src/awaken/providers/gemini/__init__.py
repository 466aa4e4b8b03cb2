"""The Google Gemini format.

Belongs here: its requests and its stream, as pure functions of data. Does not: connections.
"""
