"""OpenAI's Chat Completions format, used by OpenAI and by every compatible server.

Belongs here: this format, and the options for differences of compatible servers.
"""
