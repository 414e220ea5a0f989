"""The code on the first pages, as a reader would copy it."""

import re

from tests.house.tree import ROOT

ADDRESS = "127.0.0.1:7400"


def readme_code(page: str, router_address: str) -> str:
    """Return the one piece of Python on a page, with another router in it."""
    text = (ROOT / page).read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert code.count(ADDRESS) == 1
    return code.replace(ADDRESS, router_address)
