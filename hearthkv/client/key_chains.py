"""The hashed prompts of the sessions that were used last. Pure."""

from collections import OrderedDict

from hearthkv.core.block_key import KeyChain
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId


class KeyChains:
    """
    One key chain a session and namespace, so that a turn hashes only what it adds.

    Args:
        chains_max: Chains that are kept; the one that was used longest ago goes first.
    """

    def __init__(self, chains_max: int) -> None:
        self._chains_max = chains_max
        self._chains: OrderedDict[tuple[SessionId, bytes, int], KeyChain] = OrderedDict()

    def __len__(self) -> int:
        return len(self._chains)

    def chain(self, session_id: SessionId, spec: NamespaceSpec) -> KeyChain:
        """Return the session's chain; a fresh one where it is not known any more."""
        name = (session_id, spec.namespace_id, spec.block_size)
        chain = self._chains.pop(name, None) or KeyChain(spec.namespace_id, spec.block_size)
        self._chains[name] = chain
        if len(self._chains) > self._chains_max:
            self._chains.popitem(last=False)
        return chain

    def forget(self, session_id: SessionId) -> None:
        """Forget the chains of a session, in all namespaces."""
        for name in [name for name in self._chains if name[0] == session_id]:
            del self._chains[name]
