"""The torture suite: every stage, two at a time, with its counts.

    python -m tests.torture            the size for CI, below ten minutes on two cores
    python -m tests.torture --full     the long lane
    python -m tests.torture kill9 …    one stage, with arguments of its own

A stage prints its seed, its counts and `N passed, N failed`, shown when it has ended; the suite
fails if a stage fails, after all have run.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

LANES = 2
"""How many stages run at once: most of them wait for processes that they start and kill."""
ALONE = ("starvation", "leaks", "everything")
"""Stages that judge times or memory, or that use every core by themselves."""

STAGES: tuple[tuple[str, str | None, str], ...] = (
    ("sweep", "--layer store --points 300", "--layer store --points 0"),
    ("sweep", "--failpoints --points 600", "--failpoints --points 0"),
    ("runtime_sweep", "--limit 200", "--full"),
    ("runtime_sweep", "--scenarios delegation --limit 60", "--scenarios delegation --full"),
    ("pair_sweep", "--limit 25", ""),
    ("kill9", "--cycles 800 --workers 2", "--cycles 100000 --workers 2"),
    ("config_kills", "--points 300 --postgres 60", "--points 0 --postgres 400"),
    ("worker_kills", "--cycles 12 --clients 20", "--cycles 1000 --clients 20"),
    ("two_servers", "--rounds 200 --seconds 10", "--rounds 200"),
    ("powerloss", "--trials 2000", "--trials 200000"),
    ("pgchaos", "--restarts 20 --cuts 50", "--restarts 1000 --cuts 1000"),
    ("control_races", "--races 300", "--races 10000"),
    ("control_kills", "--kills 12", "--kills 2000"),
    ("control_chaos", "--faults 10", "--faults 500"),
    ("cluster_chaos", "--faults 60", "--faults 5000"),
    ("cluster_chaos", None, "--faults 500 --carriers none,nats --pooled"),
    ("two_versions", None, ""),
    ("schedule_sweep", "--schedules 20000", "--schedules 1000000"),
    ("due_times", "--schedules 100 --kills 8", "--schedules 1000 --kills 200"),
    ("eval_kills", "--kills 8 --postgres 4 --samples 40", "--kills 100 --postgres 100"),
    ("starvation", "", ""),
    ("leaks", "--runs 2500", "--runs 100000"),
    ("many_tasks", "--tasks 400", "--full"),
    ("everything", "--rotate 6", ""),
    ("mutants", "--rotate 2", ""),
    ("runtime_mutants", "--rotate 1", ""),
    ("chaos_mutants", "--rotate 1", ""),
    ("two_servers_mutants", None, ""),
)


def main() -> None:
    """Run the stages and print how each went."""
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        command = _command(sys.argv[1], sys.argv[2:])
        sys.exit(subprocess.run(command, check=False).returncode)
    parser = argparse.ArgumentParser(prog="torture")
    parser.add_argument("--full", action="store_true")
    is_full = parser.parse_args().full
    wanted = [
        (name, arguments.split())
        for name, small, full in STAGES
        # Without arguments for CI: only the long lane has the time for it.
        if (arguments := full if is_full else small) is not None
    ]
    alone = [stage for stage in wanted if stage[0] in ALONE]
    together = [stage for stage in wanted if stage[0] not in ALONE]
    ended = [*_run_stages(together, LANES), *_run_stages(alone, 1)]
    rows = [
        f"{'FAILED' if code else 'ok':>6}  {seconds:6.0f} s  {shown}"
        for code, seconds, shown in ended
    ]
    print("\n".join(["", "torture:", *rows]), flush=True)
    # A stage that a signal ended has a negative code.
    sys.exit(any(code for code, _, _ in ended))


def _run_stages(
    stages: Sequence[tuple[str, list[str]]], lanes: int
) -> list[tuple[int, float, str]]:
    """Run stages, so many at once; returns the exit code, the seconds and the name of each."""
    ended = []
    with ThreadPoolExecutor(lanes) as pool:
        running = [pool.submit(_time_stage, name, arguments) for name, arguments in stages]
        for done in as_completed(running):
            code, seconds, shown, output = done.result()
            sys.stdout.buffer.write(output)
            sys.stdout.flush()
            ended.append((code, seconds, shown))
    return ended


def _time_stage(name: str, arguments: list[str]) -> tuple[int, float, str, bytes]:
    began = time.perf_counter()
    done = subprocess.run(
        _command(name, arguments), check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    shown = " ".join([name, *arguments])
    return done.returncode, time.perf_counter() - began, shown, done.stdout


def _command(name: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", f"tests.torture.{name}", *arguments]


if __name__ == "__main__":
    main()
