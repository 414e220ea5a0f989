"""Exit 0 if the gRPC server at the given address says that it serves. For container probes."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


def main() -> int:
    """Ask the standard health service once, for at most two seconds."""
    with grpc.insecure_channel(sys.argv[1]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            status = stub.Check(health_pb2.HealthCheckRequest(), timeout=2).status
        except grpc.RpcError as error:
            print(f"{sys.argv[1]}: {error.code().name}", file=sys.stderr)
            return 1
    return 0 if status == health_pb2.HealthCheckResponse.SERVING else 1


if __name__ == "__main__":
    sys.exit(main())
