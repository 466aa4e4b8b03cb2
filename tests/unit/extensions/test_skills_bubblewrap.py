"""Scripts of skills in the real bubblewrap: what they reach, what they leave, and how they end."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.unit.extensions.test_skills_scripts import Bench, code, is_running

from awaken.extensions.skills.config import ScriptsConfig
from awaken.extensions.skills.sandbox import Sandbox

BOUND_S = 20
PROBE = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")


def why_not() -> str | None:
    """Why the real bubblewrap cannot be tried here."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    if subprocess.run(PROBE, check=False, capture_output=True).returncode:
        return "user namespaces are not permitted"
    return None


REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    # Copies are made below: what is left of them is this test's.
    place = tmp_path / "copies"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return Bench(tmp_path / "skills")


def told(bench: Bench, text: str, *args: str, **config: Any) -> Any:
    """What a Python script prints as JSON."""
    bench.write("a.py", f"import json, os, socket, sys\n{text}\nprint(json.dumps(found))")
    data = bench.run("a.py", config, list(args)).data
    assert data["exit_code"] == 0, data
    assert all(Path(it[0]).name == "bwrap" for it in bench.sandbox._found.values())
    return json.loads(data["stdout"])


CONNECT = """
found = {}
for host in (sys.argv[1], "localhost"):
    try: socket.create_connection((host, int(sys.argv[2])), 2); found[host] = True
    except OSError: found[host] = False
"""


def test_the_network_is_there_only_if_it_is_allowed(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = ("127.0.0.1", str(server.getsockname()[1]))
        cut_off = told(bench, CONNECT, *where)
        reached = told(bench, CONNECT, *where, network="allow")
    assert cut_off == {"127.0.0.1": False, "localhost": False}
    assert reached == {"127.0.0.1": True, "localhost": True}


WRITE = """
found = []
for place in sys.argv[1:]:
    try:
        with open(place, "a") as file: file.write("")
        found.append(place)
    except OSError: pass
"""


def test_nothing_can_be_written_but_the_copy_of_the_skill(bench: Bench, tmp_path: Path) -> None:
    outside = [
        "/x", "/usr/x", "/usr/local/bin/x", "/etc/x", "/bin/x", "/lib/x", "/dev/x", "/home/x",
        "/root/x", "/var/x", "/run/x", "/proc/sys/kernel/core_pattern", "/proc/self/comm",
        "/proc/sysrq-trigger", f"{tmp_path}/x", f"{bench.skill}/SKILL.md", f"{Path.home()}/x",
        f"{os.getcwd()}/x",
    ]  # fmt: skip
    inside = ["/skill/x", "/tmp/y", "/dev/shm/z", "relative", "SKILL.md"]
    assert told(bench, WRITE, *outside, *inside) == inside
    assert sorted(it.name for it in tmp_path.iterdir()) == ["copies", "skills"]
    assert os.listdir(tmp_path / "copies") == []


READ = """
found = []
for place in sys.argv[1:]:
    try:
        os.listdir(place) if place.endswith("/") else open(place, "rb").read(1)
        found.append(place)
    except OSError: pass
"""


def test_nothing_of_the_server_can_be_read(bench: Bench, tmp_path: Path) -> None:
    secret = tmp_path / "awaken.db"
    secret.write_text("everything")
    hidden = [
        str(secret), f"{tmp_path}/", f"{bench.skill}/SKILL.md", f"{Path.home()}/", "/home/",
        "/root/", f"{os.getcwd()}/", f"{Path(__file__)}", "/etc/passwd", "/etc/shadow",
        "/etc/hostname", "/var/", "/run/", "/sys/", "/mnt/", "/opt/",
        f"/proc/{os.getpid()}/environ",
    ]  # fmt: skip
    assert all(map(os.path.exists, hidden[:3]))
    for network in ("forbid", "allow"):
        shown = told(bench, READ, *hidden, "SKILL.md", "/usr/", network=network)
        # In a pid namespace of its own a small number is somebody else.
        assert set(shown) - {f"/proc/{os.getpid()}/environ"} == {"SKILL.md", "/usr/"}


ENVIRONMENT = """
found = sorted(os.environ)
for name in os.listdir("/proc"):
    if name.isdigit():
        parts = open(f"/proc/{name}/environ").read().split("\\0")
        found += [it.partition("=")[0] for it in parts if it]
"""


def test_no_process_that_a_script_sees_has_an_environment_of_the_server(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LOCALE_X", "de")
    seen = told(bench, ENVIRONMENT, environment=["LOCALE_X"])
    assert set(seen) - {"PWD", "SHLVL", "_"} == {"PATH", "HOME", "TMPDIR", "LANG", "LOCALE_X"}


def wait_until(words: str, *, runs: bool) -> None:
    """Wait until a process of this command line runs, or none: the system may take a moment."""

    async def settled() -> None:
        async with asyncio.timeout(BOUND_S):
            while is_running(words) is not runs:
                await asyncio.sleep(0)

    asyncio.run(settled())


@pytest.mark.parametrize("is_late", [True, False], ids=["timeout", "end"])
def test_children_end_with_the_script_also_those_that_left_its_session(
    bench: Bench, tmp_path: Path, is_late: bool
) -> None:
    mark = f"31.7654{os.getpid()}"
    lonely = f"(setsid sleep {mark} >/dev/null 2>&1 &) & setsid sleep {mark} &"
    bench.write("a.sh", f"{lonely} {'sleep 60' if is_late else 'echo done'}")
    result = bench.run("a.sh", {"timeout_ms": 500 if is_late else 10_000})
    if is_late:
        assert code(result) == "script_timeout"
    else:
        assert result.data["stdout"] == "done\n"
    wait_until(f"sleep\x00{mark}", runs=False)
    assert os.listdir(tmp_path / "copies") == []


def test_a_script_ends_with_its_server(tmp_path: Path) -> None:
    mark = f"31.8765{os.getpid()}"
    asked = Sandbox().command(ScriptsConfig(), tmp_path, ("sleep", mark))
    command = asyncio.run(asked)
    server = subprocess.Popen(["sh", "-c", '"$@" & wait', "sh", *command])
    wait_until(f"sleep\x00{mark}", runs=True)
    server.send_signal(signal.SIGKILL)
    server.wait(BOUND_S)
    wait_until(f"sleep\x00{mark}", runs=False)


@pytest.mark.parametrize(
    ("text", "limit", "exit_code"),
    [
        ("x = bytearray(500_000_000)", {"memory_mb": 200}, 1),
        ("open('big', 'wb').write(b'x' * 3_000_000)", {"file_mb": 1}, 1),
        ("sys.exit(3)", {}, 3),
        ("os.kill(os.getpid(), 15)", {}, 128 + signal.SIGTERM),
    ],
    ids=["memory", "file", "exit", "signal"],
)
def test_limits_hold_and_the_exit_code_is_the_scripts(
    bench: Bench, text: str, limit: dict[str, int], exit_code: int
) -> None:
    bench.write("a.py", f"import os, sys\n{text}\nprint('through')")
    data = bench.run("a.py", {"timeout_ms": 15_000, **limit}).data
    assert (data["exit_code"], data["stdout"]) == (exit_code, "")


def test_limits_cannot_be_lifted_and_there_is_no_input(bench: Bench) -> None:
    bench.write("a.sh", "cat; ulimit -Hu; ulimit -Hn; ulimit -Hc; ulimit -Hf; ulimit -u 100000")
    data = bench.run("a.sh", {"processes": 8, "file_mb": 2}).data
    assert data["stdout"] == "8\n256\n0\n2048\n"
    assert data["exit_code"] != 0
