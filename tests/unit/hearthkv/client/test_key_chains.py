"""Tests of hearthkv/client/key_chains.py."""

from hearthkv.client.key_chains import KeyChains
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId

SPEC = NamespaceSpec(b"n" * 16, 4, 64)
OTHER = NamespaceSpec(b"o" * 16, 4, 64)
A, B, C = SessionId("a"), SessionId("b"), SessionId("c")


def test_a_turn_that_extends_the_last_one_hashes_only_what_is_new():
    chains = KeyChains(2)
    chains.chain(A, SPEC).keys_of(range(400))
    assert chains.chain(A, SPEC).hashed_blocks == 100
    chains.chain(A, SPEC).keys_of(range(408))
    assert chains.chain(A, SPEC).hashed_blocks == 102


def test_sessions_and_namespaces_have_chains_of_their_own():
    chains = KeyChains(8)
    assert len({id(chains.chain(s, spec)) for s in (A, B) for spec in (SPEC, OTHER)}) == 4


def test_the_chain_that_was_used_longest_ago_goes_first():
    chains = KeyChains(2)
    a, b = chains.chain(A, SPEC), chains.chain(B, SPEC)
    assert chains.chain(A, SPEC) is a
    chains.chain(C, SPEC)
    assert len(chains) == 2
    assert chains.chain(A, SPEC) is a
    assert chains.chain(B, SPEC) is not b


def test_a_session_is_forgotten_in_all_namespaces():
    chains = KeyChains(8)
    for session, spec in [(A, SPEC), (A, OTHER), (B, SPEC)]:
        chains.chain(session, spec)
    chains.forget(A)
    assert len(chains) == 1
