"""A desk with a few tools: in this process, over stdio (`python services.py FOLDER`), or over HTTP.

What it was asked to do is counted in `Desk.done`, or, as a program, in the file `done` of its
folder; a file `tools` there names further tools that it offers.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
FORM = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]}
MODERN = "2026-07-28"
PAGE = 4


class Desk:
    """The tools and what has become of them."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.done: list[str] = []
        self.extra: list[types.Tool] = []
        self.metas: list[dict[str, Any]] = []
        self.cancelled = asyncio.Event()
        self.begun = asyncio.Event()
        self.lists = 0
        self.bus = InMemorySubscriptionBus()
        self.server = Server(
            "desk",
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            on_subscriptions_listen=ListenHandler(self.bus),
        )

    def tools(self) -> list[types.Tool]:
        names = ("say", "count", "fail", "slow", "book", "visit", "think", "look", "list_roots")
        named = self.folder / "tools" if self.folder else None
        more = named.read_text().split() if named and named.exists() else []
        return [*map(tool, names), *map(tool, more), *self.extra]

    def note(self, what: str) -> None:
        self.done.append(what)
        if self.folder is not None:
            with (self.folder / "done").open("a") as file:
                file.write(f"{what}\n")

    async def _list(self, _context: Any, params: Any) -> types.ListToolsResult:
        self.lists += 1
        tools = self.tools()
        start = int(params.cursor) if params and params.cursor else 0
        more = str(start + PAGE) if start + PAGE < len(tools) else None
        return types.ListToolsResult(tools=tools[start : start + PAGE], next_cursor=more)

    async def _call(self, context: Any, params: Any) -> Any:
        self.metas.append(dict(context.meta or {}))
        self.note(params.name)
        handler = getattr(self, f"_{params.name}", self._say)
        answered = await handler(context, params)
        return said(answered) if isinstance(answered, str) else answered

    async def _say(self, _context: Any, params: Any) -> str:
        return f"{params.name}: {(params.arguments or {}).get('text', '')}"

    async def _fail(self, _context: Any, _params: Any) -> types.CallToolResult:
        return said("it went wrong", is_error=True)

    async def _count(self, context: Any, _params: Any) -> types.CallToolResult:
        for number in range(1, 5):
            await context.session.report_progress(number, 4, f"step {number}")
        image = types.ImageContent(data="QUJD", mime_type="image/png")
        content = [types.TextContent(text="4"), image]
        return types.CallToolResult(content=content, structured_content={"steps": 4})

    async def _slow(self, _context: Any, _params: Any) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return "never"

    async def _look(self, _context: Any, _params: Any) -> str:
        return "seen"

    async def _book(self, context: Any, params: Any) -> Any:
        if context.protocol_version == MODERN:
            answer = (params.input_responses or {}).get("q")
            if answer is None:
                asked = types.ElicitRequest(
                    params=types.ElicitRequestFormParams(message="How many?", requested_schema=FORM)
                )
                return types.InputRequiredResult(input_requests={"q": asked}, request_state="s1")
            assert params.request_state == "s1"
        else:
            answer = await context.session.elicit_form("How many?", FORM, context.request_id)
        self.note(f"booked {answer.action}")
        return f"{answer.action} {answer.content}"

    async def _visit(self, context: Any, params: Any) -> Any:
        if context.protocol_version == MODERN:
            if not params.input_responses:
                asked = types.ElicitRequest(
                    params=types.ElicitRequestURLParams(
                        message="Log in", url="https://x.example/in"
                    )
                )
                return types.InputRequiredResult(input_requests={"u": asked}, request_state="s2")
            return f"visited {params.input_responses['u'].action}"
        answer = await context.session.elicit_url(
            "Log in", "https://x.example/in", "e1", context.request_id
        )
        return f"visited {answer.action}"

    async def _think(self, context: Any, params: Any) -> Any:
        message = types.SamplingMessage(role="user", content=types.TextContent(text="2 + 2?"))
        asked = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[message], max_tokens=9)
        )
        if context.protocol_version == MODERN:
            answer = (params.input_responses or {}).get("m")
            if answer is None:
                return types.InputRequiredResult(input_requests={"m": asked})
        else:
            answer = await context.session.send_request(asked, types.CreateMessageResult)
        return f"thought {answer.content.text}"

    async def _list_roots(self, context: Any, _params: Any) -> str:
        asked = types.ListRootsRequest()
        roots = await context.session.send_request(asked, types.ListRootsResult)
        return " ".join(str(it.uri) for it in roots.roots)

    async def _prompts(self, _context: Any, _params: Any) -> types.ListPromptsResult:
        who = types.PromptArgument(name="who", description="Whom", required=True)
        return types.ListPromptsResult(
            prompts=[types.Prompt(name="greet", description="Greet them", arguments=[who])]
        )

    async def _prompt(self, _context: Any, params: Any) -> types.GetPromptResult:
        text = types.TextContent(text=f"Greet {params.arguments['who']} warmly.")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    async def _resources(self, _context: Any, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri="desk://a", name="a")])

    async def _read(self, _context: Any, params: Any) -> types.ReadResourceResult:
        uri = str(params.uri)
        text = types.TextResourceContents(uri=uri, text=f"<p>{uri}</p>", mime_type="text/html")
        return types.ReadResourceResult(contents=[text])

    async def changed(self) -> None:
        """Tell those who listen, in the newer era, that the tools are others."""
        await self.bus.publish(ToolsListChanged())


def tool(name: str, **more: Any) -> types.Tool:
    hints = {"look": types.ToolAnnotations(read_only_hint=True)}
    meta = {"ui": {"resourceUri": "ui://desk/look"}} if name == "look" else None
    fields = {"description": f"To {name}", "input_schema": TEXT, **more}
    return types.Tool(name=name, annotations=hints.get(name), _meta=meta, **fields)


def said(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


async def main(folder: Path) -> None:
    """Serve over this process's pipes."""
    desk = Desk(folder)
    options = desk.server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await desk.server.run(read, write, options)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
