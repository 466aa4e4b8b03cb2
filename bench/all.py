"""Measures every table of docs/benchmarks.md and writes them into the page.

usage: all.py [--quick] [--sections a,b] [--only x,y] [--render]
       BEFORE=/path/to/a/checkout all.py     with the version before in the same rounds

--quick     our own rows and one peer, few and short rounds; pages into $BENCH_ROOT/results/quick
--sections  measure only these, then write the page if all results are of one version
--only      only these frameworks or servers
--render    measure nothing, write the page from the results
"""

from __future__ import annotations

import argparse
import sys
import time

import page
import results
import trees
from sections import SECTIONS, Settings, measure
from workers import log


def main() -> None:
    """Measure, save, write the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sections", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--only", help="frameworks or servers, comma-separated")
    parser.add_argument("--render", action="store_true")
    args = parser.parse_args()
    wanted = args.sections.split(",") if args.sections else list(SECTIONS)
    if unknown := [name for name in wanted if name not in SECTIONS]:
        parser.error(f"unknown section {', '.join(unknown)}; known: {', '.join(SECTIONS)}")
    settings = Settings(is_quick=args.quick, only=args.only)
    start = time.monotonic()
    if not args.render:
        log(f"measuring {trees.this().name}")
    try:
        for name in () if args.render else wanted:
            section = measure(name, settings)
            log("wrote", results.save(section, is_quick=args.quick))
        log(f"took {(time.monotonic() - start) / 60:.1f} minutes")
        run = results.load(SECTIONS, is_quick=args.quick)
        written = page.write(run, results.folder(is_quick=True) if args.quick else None)
    except (results.MixedVersions, page.UnknownPart) as error:
        sys.exit(f"no page was written: {error}")
    for target in written:
        log("wrote", target)


if __name__ == "__main__":
    main()
