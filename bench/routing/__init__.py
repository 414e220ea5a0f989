"""How long a turn's placement takes: over gRPC, by itself, and beside other routers."""
