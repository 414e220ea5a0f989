"""Start a HearthKV cache node: it keeps blocks in Redis and on SSD, and gives them back."""

import os
import sys
from functools import partial

from cachenode.allocator import keep_freed_memory
from cachenode.server import serve
from cachenode.settings import CacheNodeSettings
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.process import CommandLine, run_program, run_until_signal
from hearthkv.settings import Section
from hearthkv.telemetry import configure_logging

PROGRAM = "hearthkv-cachenode"
KV_CACHE = Section("kv_cache", KvCacheSettings)
CACHENODE = Section("cachenode", CacheNodeSettings)
SECRETS = frozenset({"redis_urls"})  # a URL may hold a password


def main() -> int:
    """Run the command; return its exit code."""
    return run_program(PROGRAM, _start)


def _start() -> None:
    line = CommandLine(
        PROGRAM,
        __doc__ or "",
        (KV_CACHE, CACHENODE),
        sys.argv[1:],
        os.environ,
        secret_fields=SECRETS,
    )
    kv_cache, settings = line.load(KV_CACHE), line.load(CACHENODE)
    if line.is_print_config:
        print(line.describe())
        return
    configure_logging(settings.log_level)
    keep_freed_memory()
    run_until_signal(partial(serve, settings, kv_cache))


if __name__ == "__main__":
    sys.exit(main())
