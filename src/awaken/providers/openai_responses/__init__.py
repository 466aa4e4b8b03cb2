"""OpenAI's Responses, used without the vendor's memory: the transcript is ours.

Belongs here: this format, and how its reasoning is kept between turns.
"""
