"""Runs fuzzers, as many at a time as there are cores, and prints a table of what each did.

    python tests/fuzz/run.py --seconds 300 --binaries build/fuzz/2600 --corpus build/fuzz/corpus \
        [--jobs 2] [--data DIRECTORY] footer file ...

Exits with 1 if one has found something, which then lies in the corpus' neighbour `found`.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Seeds of these are Parquet files; the others begin with nothing.
OF_FILES = ("file", "footer", "row_finder")
# An input of some KB, for which memory_budget=16 MiB is plenty, may take 4 times as much.
MOST_MALLOC_MB = 64
MOST_MB = 1024  # all that is resident, ASan's shadow and quarantine included
MOST_SECONDS = 10  # of one input
MOST_BYTES = 24 << 10
# Half of the time goes to whole files.
SHARES = {"file": 8, "row_finder": 2}
# Statistics of rare features take most of the time of inputs that have thousands of features;
# and the mutator of files makes several changes at a time itself.
FOR_FILES = ("-entropic=0", "-mutate_depth=2")
# Stacks of all that is allocated, and much that is freed, take as long as the fuzzers themselves.
ASAN = "malloc_context_size=4:quarantine_size_mb=32"


def write_seeds(directory, data):
    """Returns the directory of all seeds."""
    command = [sys.executable, Path(__file__).with_name("seeds.py"), directory]
    subprocess.run([*command, *(["--data", data] if data else [])], check=True)
    return directory


def run(name, seconds, options, seeds):
    """Returns (executions, branches covered, files that were kept, whether it found nothing)."""
    corpus = options.corpus / name
    found = options.corpus.parent / "found"
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    command = [
        options.binaries / name, corpus, *([seeds] if name in OF_FILES else []),
        f"-max_total_time={seconds}", f"-timeout={MOST_SECONDS}", f"-rss_limit_mb={MOST_MB}",
        f"-malloc_limit_mb={MOST_MALLOC_MB}", f"-artifact_prefix={found}/{name}-",
        f"-max_len={MOST_BYTES}", "-print_final_stats=1", "-reload=0", "-verbosity=1",
        *(FOR_FILES if name in OF_FILES else ()),
    ]  # fmt: skip
    # What another directory of the system's libraries preloads is not for a fuzzer.
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "ASAN_OPTIONS": ASAN,
            "PATH": "/usr/bin:/bin",
        },
    )
    log = done.stdout.decode(errors="replace")
    (found / f"{name}.log").write_text(log)
    if done.returncode:
        print("\n".join(log.splitlines()[-60:]))
    executions = re.search(r"number_of_executed_units: (\d+)", log)
    covered = re.findall(r"cov: (\d+)", log)
    return (
        int(executions[1]) if executions else 0,
        int(covered[-1]) if covered else 0,
        len(list(corpus.iterdir())),
        done.returncode == 0,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=300, help="of all of them together")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--data")
    parser.add_argument("targets", nargs="+")
    options = parser.parse_args()
    seeds = write_seeds(options.corpus.parent / "seeds", options.data)
    shares = {name: SHARES.get(name, 1) for name in options.targets}

    def run_share(name):
        seconds = max(1, options.seconds * shares[name] // sum(shares.values()))
        return (name, seconds, *run(name, seconds, options, seeds))

    # The longest first, so that all cores are done at about the same time.
    names = sorted(options.targets, key=lambda name: -shares[name])
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = sorted(pool.map(run_share, names))
    print(f"\n{'fuzzer':14}{'seconds':>9}{'executions':>12}{'branches':>10}{'kept':>7}  ends")
    for name, seconds, executions, covered, kept, well in rows:
        ends = "well" if well else "with a finding: build/fuzz/found"
        print(f"{name:14}{seconds:9}{executions:12,}{covered:10,}{kept:7,}  {ends}")
    print(f"{sum(row[2] for row in rows):,} executions")
    sys.exit(not all(row[-1] for row in rows))


if __name__ == "__main__":
    main()
