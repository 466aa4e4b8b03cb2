"""A coding agent for editors: files through an MCP server in a sandbox, writes only after a yes.

An editor starts it with `awaken acp`. It works in the folder `AGENT_FOLDER`, else in the current
one. The model never touches a file itself: a server of our own does, which sees nothing else.
"""

import os
from pathlib import Path

from sandbox import isolate
from scripted_coder import scripted_coder

from awaken import Agent
from awaken.extensions.mcp import McpPlugin, McpServer, Stdio
from awaken.extensions.permission import PermissionPlugin, allow, ask

FOLDER = Path(os.environ.get("AGENT_FOLDER", ".")).resolve()
COMMAND, *ARGUMENTS = isolate(Path(__file__).with_name("file_server.py"), FOLDER)

files = McpServer(
    name="files",
    transport=Stdio(command=COMMAND, args=tuple(ARGUMENTS)),
    # Our own server: its word that a tool only reads is good, so such calls may be repeated.
    trusted=True,
)
coder = Agent(
    "coder",
    model=os.environ.get("AGENT_MODEL") or scripted_coder(),
    description="Reads and changes the files of a project.",
    instructions=(
        "You are a careful programmer. Read a file before you change it, change as little as "
        "possible, and say in one sentence what you did."
    ),
    plugins=[
        McpPlugin([files]),
        PermissionPlugin(
            [
                allow("mcp__files__list_files"),
                allow("mcp__files__read_file"),
                ask("mcp__files__write_file", scope="thread"),
            ],
            default="deny",
        ),
    ],
)
