"""Start the reference engine: `python -m hearthkv.demo`."""

import os
import sys
from functools import partial

from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.demo.engine_process import serve
from hearthkv.demo.engine_settings import EngineSettings
from hearthkv.process import CommandLine, run_program, run_until_signal
from hearthkv.settings import Section
from hearthkv.telemetry import configure_logging

PROGRAM = "hearthkv.demo"
ENGINE = Section("engine", EngineSettings)
KV_CACHE = Section("kv_cache", KvCacheSettings)


def main() -> int:
    """Run the engine and return its exit code."""
    return run_program(PROGRAM, _start)


def _start() -> None:
    line = CommandLine(PROGRAM, __doc__ or "", (KV_CACHE, ENGINE), sys.argv[1:], os.environ)
    settings, kv_cache = line.load(ENGINE), line.load(KV_CACHE)
    if line.is_print_config:
        print(line.describe())
        return
    configure_logging(settings.log_level)
    run_until_signal(partial(serve, settings, kv_cache))


if __name__ == "__main__":
    sys.exit(main())
