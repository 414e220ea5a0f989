"""A session file is read into texts."""

from hearthkv.demo.session_texts import OpenFile, SessionTexts, Step, parse_texts

SOURCE = """
system = '''
You are brief.
'''
tools = '''
{"type": "function"}
{"type": "other"}
'''
task = "Mend it. "
follow_ups = ["Why?"]

[[open_files]]
path = "a.py"
text = "x = 1"

[[steps]]
tool = "read_file"
about = "b.py"
text = "y = 2"
"""


def test_every_part_has_its_place():
    assert parse_texts(SOURCE) == SessionTexts(
        system="You are brief.",
        tools=({"type": "function"}, {"type": "other"}),
        task="Mend it.",
        open_files=(OpenFile("a.py", "x = 1"),),
        steps=(Step("read_file", "b.py", "y = 2"),),
        follow_ups=("Why?",),
    )
