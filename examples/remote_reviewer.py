"""A reviewer in another process: the author asks it over A2A as if it were here.

The second process is a whole awaken server. The author's side keeps a run of its own for the
review, with the remote task's id in it, so that it is found again after a crash of either side.
"""

import asyncio
import socket
import sys
from asyncio.subprocess import Process

import uvicorn

from awaken import Agent, AgentRuntime, RemoteEndpoint
from awaken.testing import ScriptedModel, ToolCalls

HOST = "127.0.0.1"


def serve(port: int) -> None:
    """What the other process does: serve one agent on every protocol, A2A among them."""
    reviewer = Agent("reviewer", model=ScriptedModel(["One typo: 'teh' in line 2."]))
    runtime = AgentRuntime([reviewer])
    uvicorn.run(runtime.asgi(), host=HOST, port=port, log_level="critical")


async def write(port: int) -> None:
    """Ask the reviewer, and use what it says."""
    reviewer = Agent(
        "reviewer",
        description="Reviews texts.",
        endpoint=RemoteEndpoint(base_url=f"http://{HOST}:{port}/v1/a2a", timeout_ms=20_000),
    )
    ask = ToolCalls([("agent_run_reviewer", {"prompt": "Please review: I like\nteh sea."})])
    author = Agent(
        "author", model=ScriptedModel([ask, "Corrected: the sea."]), delegates=["reviewer"]
    )
    async with AgentRuntime([author, reviewer]) as runtime:
        result = await runtime.run("author", "Write about the sea.", thread_id="essay")
        messages = await runtime.messages("essay")

    answer = messages[-2].message.text
    print(result.text)
    assert "One typo: 'teh' in line 2." in answer
    assert result.text == "Corrected: the sea."


async def main() -> None:
    port = free_port()
    other = await asyncio.create_subprocess_exec(sys.executable, __file__, str(port))
    try:
        await until_it_answers(port, other)
        await write(port)
    finally:
        if other.returncode is None:
            other.terminate()
        await other.wait()


def free_port() -> int:
    """A free port."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


async def until_it_answers(port: int, other: Process) -> None:
    """Wait for the other server, but not for ever."""
    async with asyncio.timeout(20):
        while other.returncode is None:
            try:
                _, writer = await asyncio.open_connection(HOST, port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
    message = "the reviewer's process is gone"
    raise RuntimeError(message)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]))
    else:
        asyncio.run(main())
