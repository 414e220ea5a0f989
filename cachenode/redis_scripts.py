"""What Redis servers do for a node in one step: scripts, and what their answers mean. Pure."""

from collections.abc import Iterator
from typing import Final

from hearthkv.core.block_frame import FRAME_BYTES

SCAN: Final = """
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local pcall, char = redis.pcall, string.char
local names, size, parts = found[2], tonumber(ARGV[4]), {}
local last = tostring(size - 1)
for index = 1, #names do
  local name = names[index]
  local head = pcall('GETRANGE', name, '0', last)
  if type(head) ~= 'string' or #head ~= size then head = string.rep('\\0', size) end
  parts[3 * index - 2], parts[3 * index - 1], parts[3 * index] = char(#name), name, head
end
return {found[1], table.concat(parts)}
"""
"""One step of a scan in one reply: a length byte, the name and the head of every value. Replies
for each name and each head would take four times as long."""

CONFIRM: Final = """
local function size_of(name)
  local size = redis.pcall('STRLEN', name)
  return type(size) == 'number' and size or 0
end
local found = {}
for index, wanted in ipairs(ARGV) do
  local reserved, name = KEYS[2 * index - 1], KEYS[2 * index]
  local size = size_of(reserved)
  if size == tonumber(wanted) then
    redis.call('RENAME', reserved, name)
    redis.call('PERSIST', name)
  elseif size == 0 then
    size = size_of(name)
  end
  found[index] = size
end
return found
"""
"""Gives reserved values the names that they are found by, and keeps them for good.

KEYS: the reserved and the stored name of each; ARGV: how many bytes each must have. Returns how
many it has; only one that has as many is confirmed. A value that was confirmed before is
confirmed again, so the call can be repeated where its answer was lost."""


def unpacked_scan(packed: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and the FRAME_BYTES at the start of their values, as SCAN packs them."""
    at = 0
    while at < len(packed):
        head_at = at + 1 + packed[at]
        end = head_at + FRAME_BYTES
        yield packed[at + 1 : head_at], packed[head_at:end]
        at = end
