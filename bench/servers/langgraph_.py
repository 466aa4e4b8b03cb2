"""`langgraph dev`: as a module it serves the graph below; the rest of its line are options."""

import json
import os
import sys
from pathlib import Path

from langchain.agents import create_agent

from adapters.langgraph_ import Scripted
from common import SYSTEM, TOOLS

agent = create_agent(Scripted(), tools=list(TOOLS), system_prompt=SYSTEM)

if __name__ == "__main__":
    graphs = {"bench": f"{Path(__file__).resolve()}:agent"}
    Path("langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    port, *options = sys.argv[1:]
    quiet = ["--no-browser", "--no-reload", "--server-log-level", "error"]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--port", port, *quiet, *options]
    os.execv(sys.executable, command)
