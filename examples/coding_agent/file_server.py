"""An MCP server over stdio with the files of one folder: `python file_server.py FOLDER`.

No path leads out of the folder, also not through a symbolic link.
"""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

MAX_BYTES = 200_000
MAX_FILES = 200
ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
READS = ToolAnnotations(read_only_hint=True)

server = MCPServer("files", log_level="WARNING")


def resolve(path: str) -> Path:
    """The file that a path of the model names.

    Raises:
        ValueError: It is outside of the folder.
    """
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT):
        raise ValueError(f"{path} is outside of the folder")
    return found


@server.tool(annotations=READS, structured_output=False)
def list_files(pattern: str = "**/*") -> str:
    """List the files whose path fits a glob pattern."""
    found = (it for it in sorted(ROOT.glob(pattern)) if it.resolve().is_relative_to(ROOT))
    files = [it.relative_to(ROOT).as_posix() for it in found if it.is_file()]
    return "\n".join(files[:MAX_FILES])


@server.tool(annotations=READS, structured_output=False)
def read_file(path: str) -> str:
    """Read a text file."""
    file = resolve(path)
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES} bytes")
    return file.read_text(encoding="utf-8")


@server.tool(structured_output=False)
def write_file(path: str, text: str) -> str:
    """Write a text file; what it had before is replaced."""
    file = resolve(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return f"wrote {len(text)} characters to {path}"


if __name__ == "__main__":
    server.run()
