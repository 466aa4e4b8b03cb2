"""The AI SDK's UI message stream: `useChat` and `DefaultChatTransport` work with agents unchanged.

The chunks are those of version 6 of the SDK, which version 7 reads as well. A client requests the
additions of version 7 with `?version=7` or the header `x-ai-sdk-version: 7`.
"""
