"""MCP: every agent is a tool, and every thread a resource.

Both generations of the protocol are supported: sessions with a handshake, and stateless requests.
Only `protocol` may be imported without the extra `mcp`; the first request loads the rest.
"""
