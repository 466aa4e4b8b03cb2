"""OpenAI's Responses format, without server-side storage: the transcript is ours.

Belongs here: this format, and how its reasoning is stored between turns.
"""
