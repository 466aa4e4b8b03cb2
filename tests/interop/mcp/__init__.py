"""What the MCP clients of others meet."""
