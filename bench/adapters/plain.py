"""The physical limit: a hand-written asyncio agent loop, plain dicts, no validation, no events."""

import asyncio
import json
import sqlite3

from common import SYSTEM, TOOL_SCHEMAS, TOOLS, Adapter, stream_turn, turn

FUNCTIONS = {function.__name__: function for function in TOOLS}
CREATE = (
    "CREATE TABLE m(thread TEXT, seq INTEGER, body TEXT, PRIMARY KEY(thread, seq)) WITHOUT ROWID"
)


def assistant_calls(calls):
    """An assistant message with tool calls; `calls` are (id, name, arguments) triples."""
    wire = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": wire}


def opening(prompt):
    """A fresh conversation."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]


async def call_tool(call):
    function = call["function"]
    result = await FUNCTIONS[function["name"]](**json.loads(function["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": str(result)}


async def loop(model, messages, tools):
    """Run to the final answer; appends to messages."""
    while True:
        message = await model(messages, tools)
        messages.append(message)
        calls = message.get("tool_calls")
        if not calls:
            return message["content"]
        if len(calls) == 1:
            messages.append(await call_tool(calls[0]))
        else:
            messages.extend(await asyncio.gather(*map(call_tool, calls)))


async def scripted(messages, tools):
    """The scripted model."""
    answer = await turn(len(messages))
    if answer.calls:
        return assistant_calls((call.id, call.name, call.json) for call in answer.calls)
    return {"role": "assistant", "content": answer.text}


class Plain(Adapter):
    name = "plain"
    modes = ("inproc",)
    store = "sqlite3, one row per message, WAL, one transaction per turn"

    def __init__(self, mode, base_url):
        super().__init__(mode, base_url)
        self.model = scripted

    async def run(self, prompt, tools):
        return await loop(self.model, opening(prompt), TOOL_SCHEMAS if tools else None)

    async def stream(self, prompt):
        count, parts = 0, []
        async for delta in stream_turn():
            count += 1
            parts.append(delta)
        return count, len("".join(parts))

    def history(self, messages):
        native = [{"role": "system", "content": SYSTEM}]
        for kind, *rest in messages:
            if kind == "call":
                native.append(assistant_calls([rest]))
            elif kind == "tool":
                native.append({"role": "tool", "tool_call_id": rest[0], "content": rest[2]})
            else:
                native.append({"role": kind, "content": rest[0]})
        return native

    async def run_on(self, native, prompt):
        messages = [*native, {"role": "user", "content": prompt}]
        return await loop(self.model, messages, TOOL_SCHEMAS)

    async def open_store(self, path):
        self.db = sqlite3.connect(path + ".db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute(CREATE)

    async def stored_turn(self, thread, prompt):
        query = "SELECT body FROM m WHERE thread=? ORDER BY seq"
        rows = self.db.execute(query, (thread,)).fetchall()
        messages = [{"role": "system", "content": SYSTEM}, *(json.loads(row[0]) for row in rows)]
        known = len(messages)
        messages.append({"role": "user", "content": prompt})
        answer = await loop(self.model, messages, TOOL_SCHEMAS)
        new = [(thread, known + i, json.dumps(m)) for i, m in enumerate(messages[known:])]
        self.db.execute("BEGIN")
        self.db.executemany("INSERT INTO m VALUES(?,?,?)", new)
        self.db.execute("COMMIT")
        return answer

    async def close_store(self):
        self.db.close()


ADAPTER = Plain
