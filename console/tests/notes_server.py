"""An MCP server over stdio, for the test of the page that manages such servers."""

import os

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")


@server.tool()
def find_note(word: str) -> str:
    """Find a note by a word in it."""
    return f"No note has {word}."


@server.prompt()
def summarize() -> str:
    """Summarize the notes."""
    return "Summarize my notes."


if os.environ.get("NOTES_KEY") != "let-me-in":
    raise SystemExit("NOTES_KEY is missing")
server.run()
