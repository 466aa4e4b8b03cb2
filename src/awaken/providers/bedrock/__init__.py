"""Amazon Bedrock over its Converse stream: binary frames, signed requests or a bearer key.

Belongs here: the Converse format, its frames, AWS signatures. Does not: botocore's client. Only
`signing` needs the extra `bedrock`; a bearer key does not.
"""

from .client import BedrockClient

__all__ = ["BedrockClient"]
