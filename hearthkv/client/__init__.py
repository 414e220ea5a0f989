"""
The client: what an engine or a framework calls to find, load and save KV blocks.

`kv.HearthKV` is the door, `turn.Turn` one turn of a session, `blocking` the same for code
without an event loop. The pure modules decide (which peer to leave alone, which bytes to
trust, how much to load, which block to refuse); `router_client`, `node_client`, `loader` and
`saver` perform. What starts with `direct_` goes past a node into its stores.
"""
