"""vLLM's router as an HTTP hop. Not pure; runs in an environment that has vllm-router."""

from collections.abc import Sequence

from bench.peers import http_hop


def _command(port: int, metrics_port: int, workers: Sequence[str]) -> list[str]:
    return [
        http_hop.script("vllm-router"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics_port)),
        *("--policy", "cache_aware", "--worker-urls", *workers),
    ]


if __name__ == "__main__":
    http_hop.main(_command)
