"""OpenAI's Chat Completions, as spoken by OpenAI and by every compatible server.

Belongs here: this format, and the options for what compatible servers do differently.
"""
