"""Small MCP servers, made with the SDK, that tests connect to."""
