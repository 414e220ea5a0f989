"""Documents have one title and live links, and nothing speaks of one person's machine."""

import re
from pathlib import PurePosixPath

from tests.house.conftest import Plant
from tests.house.tree import Tree

FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) +\S|<h([1-6])\b", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
README_LINES_MAX = 60

# Spelt in halves, so that this file may stay in the tree that it searches.
MACHINE_WORDS = [
    re.compile(left + right)
    for left, right in [
        (r"(?<![\w.$}])/wo", r"rk/"),
        (r"(?<![\w.$}])/tmp/", r"\w/"),
        ("index", "-url"),
        ("trusted", "-host"),
        ("find", "-links"),
        (r"pypi\.", "org"),
        (r"python", "hosted"),
        (r"registry\.", r"npmjs"),
    ]
]


def documents(tree: Tree) -> list[PurePosixPath]:
    return [path for path in tree.paths if path.suffix == ".md"]


def heading_levels(text: str) -> list[int]:
    """The levels of a document's headings, in order; what looks like one in code is none."""
    found = HEADING.finditer(FENCE.sub("", text))
    return [len(match[1]) if match[1] else int(match[2]) for match in found]


def badly_titled(tree: Tree) -> list[str]:
    counts = {path: heading_levels(tree.read(path)).count(1) for path in documents(tree)}
    return [f"{path} has {count} titles, not 1" for path, count in counts.items() if count != 1]


def dead_links(tree: Tree) -> list[str]:
    return [
        f"{path} links to {target}, which is not there"
        for path in documents(tree)
        for target in LINK.findall(FENCE.sub("", tree.read(path)))
        if ":" not in target and not (tree.root / path.parent / target).exists()
    ]


def untold_folders(tree: Tree) -> list[str]:
    """Folders at the root without a README that fits on a screen."""
    folders = {path.parts[0] for path in tree.paths if len(path.parts) > 1}
    readmes = {folder: f"{folder}/README.md" for folder in sorted(folders) if folder[0] != "."}
    return [
        f"{readme} is missing or longer than {README_LINES_MAX} lines"
        for readme in readmes.values()
        if not tree.has(readme) or len(tree.read(readme).splitlines()) > README_LINES_MAX
    ]


def machine_words(tree: Tree) -> list[str]:
    """Paths of one machine, and hosts of package indexes: both are the reader's own affair."""
    return [
        f"{path}:{number} says {match[0]}"
        for path in tree.paths
        for number, line in enumerate(tree.read(path).splitlines(), start=1)
        for word in MACHINE_WORDS
        if (match := word.search(line))
    ]


def test_every_document_has_one_title(repository: Tree):
    assert badly_titled(repository) == []


def test_links_between_documents_are_live(repository: Tree):
    assert dead_links(repository) == []


def test_every_folder_says_what_it_holds(repository: Tree):
    assert untold_folders(repository) == []


def test_the_readme_says_the_same_in_chinese(repository: Tree):
    english, chinese = (repository.read(name) for name in ("README.md", "README.zh-CN.md"))
    assert heading_levels(chinese) == heading_levels(english)


def test_there_is_a_changelog_with_a_place_for_what_comes(repository: Tree):
    assert "\n## [Unreleased]" in repository.read("CHANGELOG.md")


def test_nothing_speaks_of_one_machine(repository: Tree):
    assert machine_words(repository) == []


def test_a_second_title_is_found_and_a_comment_in_code_is_none(plant: Plant):
    tree = plant(
        {
            "a.md": "# One\n\n```sh\n# not a title\n```\n\n## Part\n",
            "b.md": "# One\n# Two\n",
            "c.md": "no title\n",
            "d.md": '<h1 align="center">One</h1>\n',
        }
    )
    assert badly_titled(tree) == ["b.md has 2 titles, not 1", "c.md has 0 titles, not 1"]


def test_a_dead_link_is_found(plant: Plant):
    text = "[a](b.md) [b](../README.md#part) [c](https://example.org/x) [d](#here) [e](gone.md)\n"
    tree = plant({"docs/a.md": text, "docs/b.md": "", "README.md": ""})
    assert dead_links(tree) == ["docs/a.md links to gone.md, which is not there"]


def test_a_folder_without_a_readme_is_found(plant: Plant):
    tree = plant(
        {
            "router/README.md": "# Router\n",
            "bench/README.md": "long\n" * 61,
            "tools/x.py": "",
            ".ci/run": "",
        }
    )
    assert [text.split()[0] for text in untold_folders(tree)] == [
        "bench/README.md",
        "tools/README.md",
    ]


def test_headings_are_compared_by_level():
    assert heading_levels("# A\n\ntext\n\n## B\n### C\n#hash\n") == [1, 2, 3]


def test_a_word_of_one_machine_is_found(plant: Plant):
    tree = plant(
        {
            "a.py": "x = '/wo" + "rk/main'\n",
            "b.sh": "cd .../wo" + "rk/\ncd $HOME/wo" + "rk/x\n",
            "c.toml": "index" + "-url = 1\n",
        }
    )
    assert [text.split()[0] for text in machine_words(tree)] == ["a.py:1", "c.toml:1"]
