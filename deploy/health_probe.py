"""Exit 0 if the gRPC server at the given address says that it serves. For container probes."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

ANSWER_WITHIN_S = 2


def main() -> int:
    """Ask the standard health service once."""
    address = sys.argv[1]
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            status = stub.Check(health_pb2.HealthCheckRequest(), timeout=ANSWER_WITHIN_S).status
        except grpc.RpcError as error:
            print(f"{address}: {error.code().name}", file=sys.stderr)
            return 1
    return 0 if status == health_pb2.HealthCheckResponse.SERVING else 1


if __name__ == "__main__":
    sys.exit(main())
