"""The AI SDK's UI message stream: `useChat` and `DefaultChatTransport` talk to agents unchanged.

The chunks are those of version 6 of the SDK, which version 7 reads as well. A client that wants
what version 7 added asks for it with `?version=7` or the header `x-ai-sdk-version: 7`.
"""
