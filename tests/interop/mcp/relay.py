"""The command that the MCP conformance suite starts as a client: it has the test play the client.

Usage: python relay.py PORT URL. Starting a whole client for each scenario would take minutes.
"""

import json
import os
import socket
import sys

NAMES = ("SCENARIO", "PROTOCOL_VERSION", "CONTEXT")

if __name__ == "__main__":
    told = {name: os.environ.get(f"MCP_CONFORMANCE_{name}", "") for name in NAMES}
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as player:
        player.sendall(json.dumps({**told, "URL": sys.argv[-1]}).encode() + b"\n")
        with player.makefile() as answer:
            print(problem := answer.read())
    sys.exit(bool(problem))
