"""Amazon Bedrock by its Converse stream: its own binary framing, signed requests or a bearer key.

Belongs here: the Converse format, its frames, AWS signatures. Does not: botocore's client. Only
`signing` needs the extra `bedrock`; a bearer key does without it.
"""

from .client import BedrockClient

__all__ = ["BedrockClient"]
