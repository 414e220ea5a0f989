"""The tree of errors is the one that its docstring draws."""

import inspect
import re

from hearthkv.core import errors


def test_the_drawn_tree_is_the_tree():
    drawn: dict[str, str] = {}
    branch: dict[int, str] = {0: "HearthKVError"}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│ ]*)[├└]── (\w+)", line)
        if found:
            depth = len(found[1]) // 4 + 1
            branch[depth] = found[2]
            drawn[found[2]] = branch[depth - 1]
    real = {
        name: kind.__base__.__name__
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind is not errors.HearthKVError
    }
    assert drawn == real


def test_only_the_root_leaves_the_tree():
    assert errors.HearthKVError.__base__ is Exception


def test_a_refusal_keeps_the_name_of_its_status():
    error = errors.PeerRefusedError("node n1 says no", status="UNAVAILABLE")
    assert (str(error), error.status) == ("node n1 says no", "UNAVAILABLE")
