"""Ask a path of a server again and again, from a process that nothing else keeps busy.

usage: server_probe.py PORT PATH     until its stdin says something or ends; prints seconds as JSON
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

GAP = 0.05


def probe(port: int, path: str) -> float | None:
    """Seconds until a whole answer, on a new connection; None unless it is 200."""
    request = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n"
    began, received = time.perf_counter(), b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request.encode())
        while data := connection.recv(65536):
            received += data
    return time.perf_counter() - began if received[9:12] == b"200" else None


def main() -> None:
    """Probe until told to stop."""
    port, path = int(sys.argv[1]), sys.argv[2]
    times = []
    while not select.select([sys.stdin], [], [], GAP)[0]:
        times.append(probe(port, path))
    print(json.dumps(times))


if __name__ == "__main__":
    main()
