"""agno's AgentOS without a store; DB=1: with its AsyncSqliteDb."""

import os

from agno.agent import Agent
from agno.db.sqlite import AsyncSqliteDb
from agno.os import AgentOS

from adapters.agno_ import Scripted
from common import SYSTEM, TOOLS
from servers.listening import listen

stored = {"db": AsyncSqliteDb(db_file="agno.db")} if os.environ.get("DB") else {}
agent = Agent(
    id="bench",
    name="bench",
    model=Scripted(),
    instructions=SYSTEM,
    tools=list(TOOLS),
    telemetry=False,
    **stored,
)
agent_os = AgentOS(agents=[agent], telemetry=False, auto_provision_dbs=bool(stored))

if __name__ == "__main__":
    listen(agent_os.get_app())
