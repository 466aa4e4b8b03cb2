"""An MCP server that wants a login, and its authorization server; prints the server's address."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.extensions.mcp_servers.authority import Authority


async def main() -> None:
    """Serve until this process is ended."""
    async with Authority().serving() as url:
        sys.stdout.write(f"Ready: {url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
