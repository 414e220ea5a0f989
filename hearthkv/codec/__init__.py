"""
Wire messages to core types and back: one module a `.proto` file. Pure.

Nothing else knows both sides. `decode_*` checks what a peer sent and raises `BadInputError`;
`encode_*` trusts our own values.
"""
