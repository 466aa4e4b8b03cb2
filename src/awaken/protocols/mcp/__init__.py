"""MCP: every agent is a tool, and every thread a resource.

Both eras of the protocol are spoken: sessions with a handshake, and stateless requests. Only
`protocol` may be imported without the extra `mcp`; the rest is loaded by the first request.
"""
