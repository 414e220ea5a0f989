"""Start a HearthKV router: it says which cache node serves a turn."""

import os
import sys
from functools import partial

from hearthkv.process import CommandLine, run_program, run_until_signal
from hearthkv.settings import Section
from hearthkv.telemetry import configure_logging
from router.server import serve
from router.settings import RouterSettings

PROGRAM = "hearthkv-router"
ROUTER = Section("router", RouterSettings)


def main() -> int:
    """Run the command; return its exit code."""
    return run_program(PROGRAM, _start)


def _start() -> None:
    line = CommandLine(PROGRAM, __doc__ or "", (ROUTER,), sys.argv[1:], os.environ)
    settings = line.load(ROUTER)
    if line.is_print_config:
        print(line.describe())
        return
    configure_logging(settings.log_level)
    run_until_signal(partial(serve, settings))


if __name__ == "__main__":
    sys.exit(main())
