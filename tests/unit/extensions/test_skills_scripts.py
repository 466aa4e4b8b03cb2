"""Scripts of skills: off by default, and kept apart, limited and gone afterwards when on."""

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.extensions.skill_folders import write_file, write_skill

from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.extensions.skills import sandbox as sandbox_module
from awaken.extensions.skills.config import ScriptsConfig
from awaken.extensions.skills.folders import FolderSkills
from awaken.extensions.skills.library import SkillLibrary
from awaken.extensions.skills.processes import run_process
from awaken.extensions.skills.sandbox import SEARCH_PATH, Sandbox
from awaken.extensions.skills.scripts import script_tool

OPEN = {"network": "allow", "isolation": "none"}
NAMESPACE = ["unshare", "--user", "--map-root-user", "true"]
BOUND_S = 20


class Bench:
    """One skill and a tool that runs its scripts."""

    def __init__(self, root: Path, sandbox: Sandbox | None = None) -> None:
        self.skill = write_skill(root, "pdf")
        self.sandbox = sandbox or Sandbox()
        self.tool = script_tool(SkillLibrary([FolderSkills(root)]), self.sandbox)

    def write(self, name: str, text: str) -> None:
        write_file(self.skill, f"scripts/{name}", text)

    async def run_async(
        self, script: str, config: Any, args: list[str] | None = None
    ) -> ToolResult:
        sections = {} if config is None else {"skills": {"scripts": config}}
        context = ToolContext(
            run=RunIdentity(run_id="r", thread_id="t", agent_id="a"),
            agent=AgentSpec(id="a", model_id="m", sections=sections),
            call=ToolCall(id="c", name="skill_script", arguments={}),
        )
        arguments = {"skill": "pdf", "script": f"scripts/{script}", "args": args or []}
        return (await self.tool.execute(self.tool.validate(arguments), context)).result

    def run(self, script: str, config: Any, args: list[str] | None = None) -> ToolResult:
        return asyncio.run(self.run_async(script, config, args))


def code(result: ToolResult) -> str:
    assert result.status is ToolStatus.ERROR, result
    return result.data["error"]["code"]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    # Copies are made below: those of other tests come and go meanwhile.
    place = tmp_path / "copies"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return Bench(tmp_path / "skills")


def leftovers() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("skill-")}


def test_scripts_are_off_unless_an_agent_has_them_on(bench: Bench) -> None:
    bench.write("a.sh", "echo hi")
    assert code(bench.run("a.sh", None)) == "unsupported_operation"
    assert code(bench.run("a.sh", False)) == "unsupported_operation"
    assert bench.run("a.sh", OPEN).data["stdout"] == "hi\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", 'printf "%s|" "$@"'),
        ("a.py", "import sys\nprint(*sys.argv[1:], sep='|', end='|')"),
        ("a.js", "process.stdout.write(process.argv.slice(2).join('|') + '|')"),
    ],
)
def test_each_runtime_gets_the_arguments_as_they_stand(bench: Bench, name: str, text: str) -> None:
    bench.write(name, text)
    args = ["a b", "$(id)", "`id`", "; ls", "é", "-x", "*"]
    result = bench.run(name, OPEN, args)
    assert result.data == {
        "exit_code": 0, "stdout": "".join(f"{arg}|" for arg in args), "stderr": "",
        "stdout_truncated": False, "stderr_truncated": False,
    }  # fmt: skip


def test_a_failing_script_tells_how_it_failed(bench: Bench) -> None:
    bench.write("a.sh", "echo no >&2; exit 3")
    data = bench.run("a.sh", OPEN).data
    assert (data["exit_code"], data["stderr"]) == (3, "no\n")


def test_nothing_of_the_environment_is_inherited_but_what_is_allowed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LOCALE_X", "de")
    bench.write("a.py", "import json, os\nprint(json.dumps(dict(os.environ)))")
    seen = json.loads(
        bench.run("a.py", {**OPEN, "environment": ["LOCALE_X", "NOT_SET"]}).data["stdout"]
    )
    assert seen.pop("LOCALE_X") == "de"
    assert seen["PATH"] == SEARCH_PATH
    # Bash adds the last three by itself.
    assert set(seen) <= {"PATH", "HOME", "TMPDIR", "LANG", "PWD", "SHLVL", "_"}


def test_a_script_works_on_a_copy_that_is_gone_afterwards(bench: Bench) -> None:
    before = leftovers()
    bench.write("a.sh", "echo changed > SKILL.md; echo x > new; pwd; ls")
    document = (bench.skill / "SKILL.md").read_text()
    data = bench.run("a.sh", OPEN).data
    assert "new" in data["stdout"]
    assert str(bench.skill) not in data["stdout"]
    assert (bench.skill / "SKILL.md").read_text() == document
    assert not (bench.skill / "new").exists()
    assert leftovers() == before


def test_there_is_no_input(bench: Bench) -> None:
    bench.write("a.sh", "cat; echo done")
    assert bench.run("a.sh", OPEN).data["stdout"] == "done\n"


def test_a_script_that_takes_too_long_is_killed_with_its_children(bench: Bench) -> None:
    bench.write("a.sh", f"sleep 6543.{os.getpid()} & sleep 60")
    before = leftovers()
    assert code(bench.run("a.sh", {**OPEN, "timeout_ms": 300})) == "script_timeout"
    assert leftovers() == before
    assert not is_running(f"sleep\x006543.{os.getpid()}")


def test_children_that_outlive_the_script_are_killed(bench: Bench) -> None:
    bench.write("a.sh", f"sleep 4321.{os.getpid()} & echo done")
    assert bench.run("a.sh", OPEN).data["stdout"] == "done\n"
    assert not is_running(f"sleep\x004321.{os.getpid()}")


def test_a_cancelled_call_leaves_no_process_and_no_copy(bench: Bench) -> None:
    bench.write("a.sh", f"sleep 5432.{os.getpid()}")
    before = leftovers()

    async def scenario() -> None:
        call = asyncio.create_task(bench.run_async("a.sh", OPEN))
        async with asyncio.timeout(BOUND_S):
            while not is_running(f"sleep\x005432.{os.getpid()}"):
                await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scenario())
    assert not is_running(f"sleep\x005432.{os.getpid()}")
    assert leftovers() == before


def test_a_flood_of_output_is_cut_and_never_held(bench: Bench) -> None:
    bench.write("a.sh", "head -c 50000000 /dev/zero | tr '\\0' x; head -c 100 /dev/zero >&2")
    data = bench.run("a.sh", {**OPEN, "output_bytes": 1_000}).data
    assert (len(data["stdout"]), data["stdout_truncated"]) == (1_000, True)
    assert (len(data["stderr"]), data["stderr_truncated"]) == (100, False)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("while True: pass", {"cpu_s": 1}),
        ("x = bytearray(500_000_000)", {"memory_mb": 200}),
        ("open('big', 'wb').write(b'x' * 3_000_000)", {"file_mb": 1}),
    ],
)  # fmt: skip
def test_limits_of_the_process_hold(bench: Bench, text: str, limit: dict[str, int]) -> None:
    bench.write("a.py", text + "\nprint('through')")
    data = bench.run("a.py", {**OPEN, "timeout_ms": 15_000, **limit}).data
    assert data["exit_code"] != 0
    assert "through" not in data["stdout"]


def test_the_number_of_processes_and_files_is_limited(bench: Bench) -> None:
    bench.write("a.sh", "ulimit -u; ulimit -n; ulimit -c")
    assert bench.run("a.sh", {**OPEN, "processes": 8}).data["stdout"] == "8\n256\n0\n"


@pytest.mark.parametrize(
    "args",
    [["x"] * 65, ["x" * 8_193], ["x" * 8_000] * 9, ["a\0b"], ["é" * 4_097], ["\ud800"]],
    ids=["many", "long", "together", "nul", "bytes", "surrogate"],
)
def test_arguments_beyond_the_caps_are_refused(bench: Bench, args: list[str]) -> None:
    bench.write("a.sh", "echo through")
    assert code(bench.run("a.sh", OPEN, args)) == "invalid_arguments"


@pytest.mark.parametrize("name", ["a.rb", "a", "a.sh.txt", "a.SH", "a.pl"])
def test_only_known_runtimes_are_run(bench: Bench, name: str) -> None:
    bench.write(name, "echo through")
    assert code(bench.run(name, OPEN)) == "unsupported_runtime"


def test_a_runtime_that_is_not_installed_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.extensions.skills.scripts.SEARCH_PATH", "/nowhere")
    bench.write("a.js", "1")
    assert code(bench.run("a.js", OPEN)) == "unsupported_runtime"


def test_without_the_network_a_script_cannot_connect(bench: Bench) -> None:
    bench.write(
        "a.py",
        "import socket, sys\n"
        "try:\n    socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)\n"
        "except OSError: print('refused')\nelse: print('connected')",
    )  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        reached = bench.run("a.py", OPEN, [port])
        cut_off = bench.run("a.py", {"isolation": "none"}, [port])
    assert reached.data["stdout"] == "connected\n"
    if cut_off.status is ToolStatus.ERROR:
        # The platform of this test cannot forbid it: then the script must not have run.
        assert code(cut_off) == "unsupported_operation"
    else:
        assert cut_off.data["stdout"] == "refused\n"


def test_a_platform_that_cannot_forbid_the_network_runs_nothing_then(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    bench.write("a.sh", "echo through")
    refused = bench.run("a.sh", {"isolation": "none"})
    assert code(refused) == "unsupported_operation"
    assert "scripts.network" in (refused.message or "")


@pytest.mark.parametrize("network", ["forbid", "allow"])
def test_without_bubblewrap_a_script_runs_only_if_no_isolation_is_required(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str
) -> None:
    # Namespaces are permitted here, but they hide no files.
    program = tmp_path / "bin" / "unshare"
    program.parent.mkdir()
    program.write_text('#!/bin/bash\nwhile [ "$1" != "--" ]; do shift; done; shift\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    bench.write("a.sh", "echo through")
    refused = bench.run("a.sh", {"network": network})
    assert code(refused) == "isolation_unavailable"
    assert "bubblewrap" in (refused.message or "")
    assert "scripts.isolation" in (refused.message or "")
    without = {"network": network, "isolation": "none"}
    assert bench.run("a.sh", without).data["stdout"] == "through\n"
    assert code(bench.run("a.sh", {"network": network})) == "isolation_unavailable"
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert Bench(tmp_path / "skills").run("a.sh", OPEN).data["stdout"] == "through\n"


@pytest.mark.parametrize("means", [0, -1], ids=["strongest", "weakest"])
def test_a_script_that_is_kept_apart_cannot_read_the_environment_of_the_server(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, means: int
) -> None:
    if shutil.which("unshare") is None or subprocess.run(NAMESPACE, check=False).returncode:
        pytest.skip("user namespaces are not permitted here")
    possible = sandbox_module._candidates

    def one(config: ScriptsConfig) -> list[tuple[str, ...]]:
        return [[it for it in possible(config) if "unshare" in it[0]][means], *possible(config)]

    monkeypatch.setattr(sandbox_module, "_candidates", one)
    bench.write("a.sh", 'cat /proc/"$1"/environ /proc/"$PPID"/environ /proc/1/environ; echo done')
    shown = bench.run("a.sh", OPEN, [str(os.getpid())]).data["stdout"]
    assert shown.endswith("done\n")
    names = {it.partition("=")[0] for it in Path("/proc/self/environ").read_text().split("\0")}
    seen = {it.partition("=")[0] for it in shown.split("\0")}
    assert not (names & seen) - {"PATH", "HOME", "TMPDIR", "LANG", "PWD", "SHLVL", "_", ""}


def fake_bwrap(directory: Path, *, works: bool) -> Path:
    """A bubblewrap that notes how it is called, and runs the command in the bound directory."""
    directory.mkdir()
    seen = directory / "seen"
    program = directory / "bwrap"
    program.write_text(
        "#!/bin/bash\n"
        f'printf "%s\\n" "$@" > {seen}\n'
        f"{'' if works else 'exit 1'}\n"
        'while [ "$1" != "--" ]; do [ "$1" = "--bind" ] && cd "$2"; shift; done; shift\n'
        'exec "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return seen


def test_bubblewrap_is_used_when_it_is_there(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = fake_bwrap(tmp_path / "bin", works=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    bench.write("a.sh", "echo through")
    assert bench.run("a.sh", {}).data["stdout"] == "through\n"
    given = seen.read_text().split("\n")
    assert {"--unshare-all", "--die-with-parent", "--new-session"} <= set(given)
    assert "--share-net" not in given
    assert given[given.index("--bind") + 2] == "/skill"
    assert given[given.index("--cap-drop") + 1] == "ALL"
    bound = [given[i + 1] for i, part in enumerate(given) if part.startswith("--ro-bind")]
    assert "/usr" in bound
    assert not {"/", "/home", "/etc", "/root", "/var", "/proc"} & set(bound)
    assert bench.run("a.sh", OPEN).data["stdout"] == "through\n"
    assert "--share-net" in seen.read_text()


def test_a_bubblewrap_that_is_not_permitted_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bwrap(tmp_path / "bin", works=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    bench = Bench(tmp_path / "skills")
    bench.write("a.sh", "echo through")
    assert code(bench.run("a.sh", {})) == "isolation_unavailable"


def test_means_are_tried_from_the_strongest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module.shutil, "which", lambda name: f"/bin/{name}")
    first, second, third = sandbox_module._candidates(ScriptsConfig(isolation="none"))
    assert first[0] == "/bin/bwrap"
    assert {"--net", "--pid", "--mount-proc", "--kill-child"} <= set(second)
    assert third == ("/bin/unshare", "--user", "--map-root-user", "--net", "--")
    online = sandbox_module._candidates(ScriptsConfig(network="allow", isolation="none"))
    assert all("--net" not in means for means in online)
    assert sandbox_module._candidates(ScriptsConfig()) == [first]


def test_the_platform_is_asked_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def strongest(config: ScriptsConfig) -> tuple[str, ...]:
        asked.append(config.network)
        return ("/usr/bin/env",)

    monkeypatch.setattr(sandbox_module, "_strongest", strongest)
    bench.write("a.sh", "echo hi")
    for _ in range(3):
        bench.run("a.sh", OPEN)
    assert asked == ["allow"]


def test_scripts_are_for_linux_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("a.sh", "echo through")
    monkeypatch.setattr(sandbox_module.sys, "platform", "darwin")
    assert code(bench.run("a.sh", OPEN)) == "unsupported_operation"


def test_a_process_that_leaves_its_group_does_not_hold_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.extensions.skills.processes.GRACE_SECONDS", 0.2)
    command = ("bash", "-c", "setsid sleep 30 & echo done; echo $!")
    done = asyncio.run(
        run_process(
            command, cwd=tmp_path, env={"PATH": SEARCH_PATH}, timeout_s=10, output_bytes=100
        )
    )
    said, pid = done.stdout.kept.split()
    os.kill(int(pid), signal.SIGKILL)
    assert (done.exit_code, said) == (0, b"done")


def test_the_defaults_are_the_strict_ones() -> None:
    config = ScriptsConfig()
    assert (config.network, config.isolation) == ("forbid", "required")
    assert config.environment == ()


def is_running(words: str) -> bool:
    """Whether a process of this command line is there."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if line.rstrip("\0") == words:
                return True
    return False
