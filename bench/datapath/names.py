"""The families of rows, by the names that the tables and the goals have for them. Pure."""

MEMCPY = "memcpy"
SHARED_MEMORY = "shared memory"

RAW_READ = "raw socket read"
RAW_WRITE = "raw socket write"
RAW_GET = "raw recvmsg_into GET"
RAW_SET = "raw sendmsg SET"
REDIS_PY_GET = "redis-py GET"
REDIS_PY_SET = "redis-py SET"

PREADV = "preadv"
PREADV_CHECKED = "preadv + xxh3"
O_DIRECT = "preadv O_DIRECT"

GRPC_READ = "bare grpc.aio read"
GRPC_WRITE = "bare grpc.aio write"

LMCACHE_READ = "LMCache resp:// read"
LMCACHE_WRITE = "LMCache resp:// write"
MOONCAKE_READ = "Mooncake TCP read"
MOONCAKE_WRITE = "Mooncake TCP write"

# HearthKV's own. The transport is what a direct read or write does between client and Redis,
# without frame and checksum, as what it is held against; the others are a whole client before a
# whole node. A mixed read takes half of its bytes from each tier.
OURS_DRAM_READ = "HearthKV transport GET"
OURS_DRAM_WRITE = "HearthKV transport SET"
OURS_DRAM_READ_CHECKED = "HearthKV direct read"
OURS_SAVE = "HearthKV direct save"
OURS_FILES = "HearthKV file reader + xxh3"
OURS_FILES_DIRECT = "HearthKV file reader O_DIRECT"
OURS_SSD_CACHED = "HearthKV SSD read"
OURS_SSD_DIRECT = "HearthKV SSD read O_DIRECT"
OURS_MIXED = "HearthKV mixed read"
OURS_GRPC_READ = "HearthKV gRPC read"
OURS_GRPC_WRITE = "HearthKV gRPC save"
