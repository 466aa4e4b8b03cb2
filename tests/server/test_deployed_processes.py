"""The processes that `deploy/` describes, with its commands, variables, probes and signals.

Only what belongs to the machine is another: the address and the program's folder.
"""

import asyncio
import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.deploy_files import LAUNCHES, Launch
from tests.forked_python import ForkedPython
from tests.nats_servers.cluster import nats_server
from tests.postgres.server import server

from .processes import APP, clean_environment, eventually

OWN_RUNTIME = f"""{APP}
from awaken import AgentRuntime, MailboxConfig, TenantLimits

limits = {{"acme": TenantLimits(max_busy=4)}}
runtime = AgentRuntime([worker], mailbox=MailboxConfig(tenants=limits, concurrency=3))
"""
"""An app that makes its own runtime, as the limits of tenants need it."""
TOKEN = "t0ken-of-the-test"
WAIT_S = 100


class Machine:
    """A folder with the app, a database, and the processes on them."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self._database = database
        self._stack = ExitStack()
        self.write_app(APP)

    def write_app(self, text: str) -> None:
        (self.folder / "app.py").write_text(text, encoding="utf-8")

    def start(self, place: str) -> "Running":
        return self._stack.enter_context(self._running(LAUNCHES[place]))

    def close(self) -> None:
        self._stack.close()

    def has_begun(self, times: int) -> bool:
        begun = self.folder / "begun"
        return begun.exists() and len(begun.read_text()) >= times

    def let_go(self) -> None:
        (self.folder / "go").touch()

    @contextmanager
    def _running(self, launch: Launch) -> Iterator["Running"]:
        values = {
            "AWAKEN_STORE": f"postgresql://postgres@/{self._database}?host={server().folder}&pool=2",
            "AWAKEN_ADMIN_API_BEARER_TOKEN": TOKEN,
            "OPENAI_API_KEY": "unused",
            "AWAKEN_BUS": f"{nats_server().url}?namespace={self._database}",
        }
        environment = {name: values[name] for name in launch.environment}
        here = {"0.0.0.0": "127.0.0.1", str(launch.port): "0"}
        command = [here.get(word, word) for word in launch.command[1:]]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            # An abstract name: the path of a folder of a test may be too long for a socket.
            manager.bind(f"\0{self._database}-{id(manager)}")
            manager.settimeout(WAIT_S)
            if launch.is_notifying:
                environment["NOTIFY_SOCKET"] = f"@{self._database}-{id(manager)}"
            process = ForkedPython(
                *("-m", "awaken", *command, "--json"),
                cwd=self.folder,
                env={**clean_environment(), **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                yield Running(launch, process, manager)
            finally:
                if process.poll() is None:
                    process.kill()
                process.communicate()


class Running:
    """One process, from the moment on that it says that it is ready."""

    def __init__(
        self, launch: Launch, process: subprocess.Popen[str], manager: socket.socket
    ) -> None:
        self.launch = launch
        self._process = process
        self._manager = manager
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        self.ready = json.loads(line)
        if launch.is_notifying:
            assert manager.recv(100) == b"READY=1"

    def read_health(self) -> Any:
        with urllib.request.urlopen(f"{self.ready['url']}/health", timeout=WAIT_S) as reply:
            return json.loads(reply.read())

    def get(self, path: str) -> int:
        with urllib.request.urlopen(f"{self.ready['url']}{path}", timeout=WAIT_S) as reply:
            return int(reply.status)

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.ready['url']}{path}",
            data=json.dumps(body).encode(),
            headers={"authorization": f"Bearer {TOKEN}", "content-type": "application/json"},
        )
        return urllib.request.urlopen(request, timeout=WAIT_S)

    def ask_to_stop(self) -> None:
        self._process.send_signal(signal.Signals[self.launch.stop_signal])
        if self.launch.is_notifying:
            assert self._manager.recv(100) == b"STOPPING=1"

    def wait_for_end(self) -> int:
        """Its exit code; killed, and so not 0, if it takes longer than its file allows."""
        try:
            self._process.communicate(timeout=self.launch.grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return int(self._process.returncode)


def list_cases(kind: str) -> list[Any]:
    """Every place with an app of agents; those that differ most with one of its own runtime too."""
    places = [it for it in LAUNCHES if LAUNCHES[it].kind == kind]
    own = [it for it in places if it.startswith(("kubernetes", "systemd"))]
    return [
        *(pytest.param(it, APP, id=it) for it in places),
        *(pytest.param(it, OWN_RUNTIME, id=f"{it} with its own runtime") for it in own),
    ]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    name = f"deployed_{abs(hash(str(tmp_path)))}"
    asyncio.run(server().sql(f"CREATE DATABASE {name}"))
    found = Machine(tmp_path, name)
    yield found
    found.let_go()
    found.close()
    asyncio.run(server().sql(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.mark.parametrize(("place", "app"), list_cases("serve"))
def test_a_server_answers_its_probes_and_drains_the_run_that_is_under_way(
    place: str, app: str, machine: Machine
) -> None:
    machine.write_app(app)
    running = machine.start(place)
    for path in (running.launch.ready_path, running.launch.live_path):
        assert path is None or running.get(path) == 200
    assert running.read_health()["components"]["carrier"] == "ok"
    body = {"agentId": "slow", "threadId": "t1", "messages": [{"content": "Go!"}]}
    with running.post("/v1/runs", body) as stream:
        eventually(lambda: machine.has_begun(times=1))
        running.ask_to_stop()
        machine.let_go()
        told = stream.read().decode()
    assert "Done." in told
    assert running.wait_for_end() == 0


@pytest.mark.parametrize(("place", "app"), list_cases("worker"))
def test_a_worker_drains_the_run_that_is_under_way(place: str, app: str, machine: Machine) -> None:
    machine.write_app(app)
    running = machine.start(place)
    assert running.ready["concurrency"] == 8
    store = ("--store", f"postgresql://postgres@/{machine._database}?host={server().folder}")
    submit = ("-m", "awaken", "submit", "slow", "Go!", "--thread", "t1", *store)
    with ForkedPython(*submit, cwd=machine.folder, env=clean_environment()) as submitted:
        assert submitted.wait(WAIT_S) == 0
    eventually(lambda: machine.has_begun(times=1))
    running.ask_to_stop()
    machine.let_go()
    assert running.wait_for_end() == 0
    show = ("-m", "awaken", "threads", "show", "t1", *store, "--json")
    with ForkedPython(
        *show, cwd=machine.folder, env=clean_environment(), stdout=subprocess.PIPE, text=True
    ) as shown:
        assert "Done." in shown.communicate(timeout=WAIT_S)[0]
