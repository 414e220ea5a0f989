"""Asks a server for its health and its services, by the standard gRPC protocols."""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

DEADLINE_S = 10


def services_of(address: str) -> set[str]:
    """Return the services that reflection lists."""
    with grpc.insecure_channel(address) as channel:
        return set(ProtoReflectionDescriptorDatabase(channel).get_services())


def is_serving(address: str, service: str = "") -> bool:
    """Whether the health service says that a service, or the whole server, takes calls."""
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=DEADLINE_S)
    return answer.status == health_pb2.HealthCheckResponse.SERVING
