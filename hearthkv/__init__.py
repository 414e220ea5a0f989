"""HearthKV: a session's KV cache outlives its requests, and its next turn goes to where it lies."""
