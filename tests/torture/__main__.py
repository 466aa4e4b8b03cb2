"""The torture suite: every stage, one after another, with its counts.

    python -m tests.torture            the size for CI, below ten minutes on two cores
    python -m tests.torture --full     the long lane
    python -m tests.torture kill9 …    one stage, with arguments of its own

A stage prints its seed, its counts and `N passed, N failed`; the suite fails with the first stage
that fails, after all have run.
"""

import argparse
import subprocess
import sys
import time

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
    ("schedule_sweep", "--schedules 4000", "--schedules 1000000"),
    ("due_times", "--schedules 100 --kills 8", "--schedules 1000 --kills 200"),
    ("eval_kills", "--kills 8 --samples 40", "--kills 100"),
    ("starvation", "", ""),
    ("leaks", "--runs 2500", "--runs 100000"),
    ("many_tasks", "--tasks 400", "--full"),
    ("everything", "--rotate 3", ""),
    ("mutants", "--rotate 2", ""),
    ("runtime_mutants", "--rotate 1", ""),
    ("chaos_mutants", "--rotate 1", ""),
    ("two_servers_mutants", None, ""),
)


def main() -> None:
    """Run the stages and print how each went."""
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.exit(_stage(sys.argv[1], sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="torture")
    parser.add_argument("--full", action="store_true")
    is_full = parser.parse_args().full
    rows, worst = [], 0
    for name, small, full in STAGES:
        wanted = full if is_full else small
        if wanted is None:
            # Only the long lane has the time for it.
            continue
        arguments = wanted.split()
        began = time.perf_counter()
        code = _stage(name, arguments)
        worst = max(worst, code)
        verdict = "ok" if code == 0 else "FAILED"
        rows.append(
            f"{verdict:>6}  {time.perf_counter() - began:6.0f} s  {name} {' '.join(arguments)}"
        )
    print("\n".join(["", "torture:", *rows]), flush=True)
    sys.exit(worst)


def _stage(name: str, arguments: list[str]) -> int:
    command = [sys.executable, "-m", f"tests.torture.{name}", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    main()
