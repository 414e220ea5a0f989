"""Layers, refusals and the printed form of settings."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import SettingsError
from hearthkv.core.kv_cache_settings import EVICTION_POLICIES, KvCacheSettings
from hearthkv.settings import Section, describe, flag_name, load, read_toml, variable_name

KV_CACHE = Section("kv_cache", KvCacheSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class OvenSettings:
    """Settings with a field of every kind."""

    KNOWN: ClassVar[int] = 3

    name: str
    heat: float = 1.5
    block: int = 4
    block_size: int = 16
    is_lit: bool = False
    racks: list[str] = field(default_factory=list)
    doors: tuple[str, ...] = ()
    owner: str | None = None

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise SettingsError(f"block_size is {self.block_size}, must be >= 1 for any block")
        if self.heat < 0:
            raise SettingsError("too cold")


OVEN = Section("oven", OvenSettings)


def bake(section=OVEN, *, table=None, environment=None, flags=None):
    return load(
        section,
        tables={section.name: table} if table is not None else {},
        file_name="hearthkv.toml",
        environment=environment or {},
        flags=flags or {},
    )


def refusal(section=OVEN, **layers) -> str:
    with pytest.raises(SettingsError) as caught:
        bake(section, **layers)
    return str(caught.value)


class TestReadToml:
    def test_tables_are_read(self, tmp_path: Path):
        path = tmp_path / "hearthkv.toml"
        path.write_text("[oven]\nname = 'a'\n[kv_cache]\n")
        assert read_toml(path, ("oven", "kv_cache")) == {"oven": {"name": "a"}, "kv_cache": {}}

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            (b"[ovn]", "section 'ovn' is unknown, must be one of oven, kv_cache; did you mean "),
            (b"[zzz]", "section 'zzz' is unknown, must be one of oven, kv_cache"),
            (b"oven = 3", "oven is a value, must be a section [oven]"),
            (b"[oven", "is not TOML: Expected ']'"),
            (b"[oven]\nname = '\xff'", "is not TOML: 'utf-8' codec"),
            (b"[oven]\nblock = 1" + b"0" * 5000, "is not TOML: Exceeds the limit"),
        ],
        ids=["near", "far", "value", "syntax", "encoding", "figure"],
    )
    def test_what_is_no_settings_file_is_refused(self, tmp_path: Path, content, text):
        path = tmp_path / "hearthkv.toml"
        path.write_bytes(content)
        with pytest.raises(SettingsError) as caught:
            read_toml(path, ("oven", "kv_cache"))
        assert str(caught.value).startswith(f"{path}: {text}")

    def test_a_missing_file_is_refused(self, tmp_path: Path):
        with pytest.raises(SettingsError, match="can't be read: No such file or directory"):
            read_toml(tmp_path / "gone.toml", ())


class TestLayers:
    def test_flags_beat_variables_and_variables_the_file_and_the_file_defaults(self):
        loaded = bake(
            table={"name": "file", "heat": 2, "block": 5},
            environment={"HEARTHKV_OVEN_HEAT": "3", "HEARTHKV_OVEN_BLOCK": "6", "OTHER": "x"},
            flags={"block": "7"},
        )
        settings = loaded.settings
        assert (settings.name, settings.heat, settings.block) == ("file", 3.0, 7)
        assert loaded.sources == {
            "name": "hearthkv.toml",
            "heat": "$HEARTHKV_OVEN_HEAT",
            "block": "--block",
            "block_size": "default",
            "is_lit": "default",
            "racks": "default",
            "doors": "default",
            "owner": "default",
        }

    def test_names_of_variables_and_flags_follow_from_the_field(self):
        assert variable_name("kv_cache", "block_size") == "HEARTHKV_KV_CACHE_BLOCK_SIZE"
        assert flag_name("block_size") == "--block-size"

    @given(
        name=st.text(),
        heat=st.floats(0),
        block=st.integers(),
        is_lit=st.booleans(),
        racks=st.lists(st.from_regex(r"[^\s,]+", fullmatch=True)),
    )
    def test_a_variable_says_what_a_file_says(self, name, heat, block, is_lit, racks):
        said = {"name": name, "heat": heat, "block": block, "is_lit": is_lit, "racks": racks}
        texts = {
            "name": name,
            "heat": str(heat),
            "block": str(block),
            "is_lit": str(is_lit),
            "racks": ", ".join(racks),
        }
        variables = {variable_name("oven", field_name): t for field_name, t in texts.items()}
        from_file = bake(table=said).settings
        assert from_file == bake(environment=variables).settings == bake(flags=texts).settings

    @pytest.mark.parametrize(
        ("text", "expected"), [("true", True), ("1", True), (" FALSE ", False), ("0", False)]
    )
    def test_a_fact_is_true_or_false(self, text, expected):
        assert bake(flags={"name": "a", "is_lit": text}).settings.is_lit is expected

    def test_texts_fill_lists_and_tuples_alike(self):
        flags = {"name": "a", "racks": "x, ,y,", "doors": "x,y"}
        settings = bake(flags=flags).settings
        assert (settings.racks, settings.doors) == (["x", "y"], ("x", "y"))
        table = {"name": "a", "racks": ["x"], "doors": ["y"]}
        settings = bake(table=table).settings
        assert (settings.racks, settings.doors) == (["x"], ("y",))

    def test_an_optional_field_takes_what_it_wraps(self):
        assert bake(table={"name": "a", "owner": "b"}).settings.owner == "b"

    def test_a_number_beyond_all_floats_is_infinite(self):
        assert bake(table={"name": "a", "heat": 10**400}).settings.heat == float("inf")


class TestRefusals:
    @pytest.mark.parametrize(
        ("table", "text"),
        [
            (
                {"blok_size": 1},
                (
                    "hearthkv.toml: [oven] field 'blok_size' is unknown, must be one of name, "
                    "heat, block, block_size, is_lit, racks, doors, owner; did you mean "
                    "'block_size'?"
                ),
            ),
            ({"KNOWN": 1}, "hearthkv.toml: [oven] field 'KNOWN' is unknown, must be one of"),
            ({"block": 1.0}, "hearthkv.toml: [oven] block is 1.0, must be a whole number"),
            ({"block": True}, "hearthkv.toml: [oven] block is True, must be a whole number"),
            ({"heat": True}, "hearthkv.toml: [oven] heat is True, must be a number"),
            ({"heat": "1"}, "hearthkv.toml: [oven] heat is '1', must be a number"),
            ({"is_lit": 1}, "hearthkv.toml: [oven] is_lit is 1, must be true or false"),
            ({"name": 1}, "hearthkv.toml: [oven] name is 1, must be a text"),
            ({"racks": [1]}, "hearthkv.toml: [oven] racks is [1], must be a list of texts"),
            ({"doors": "a"}, "hearthkv.toml: [oven] doors is 'a', must be a list of texts"),
            ({"owner": 1}, "hearthkv.toml: [oven] owner is 1, must be a text"),
            ({}, "hearthkv.toml: [oven] lacks name"),
        ],
        ids=lambda value: next(iter(value), "missing") if isinstance(value, dict) else "",
    )
    def test_a_file_with_a_wrong_field_is_refused(self, table, text):
        assert refusal(table=table).startswith(text)

    @pytest.mark.parametrize(
        ("name", "value", "text"),
        [
            ("block", "many", "$HEARTHKV_OVEN_BLOCK is 'many', must be a whole number"),
            ("block", "", "$HEARTHKV_OVEN_BLOCK is '', must be a whole number"),
            ("heat", "1,5", "$HEARTHKV_OVEN_HEAT is '1,5', must be a number"),
            ("is_lit", "yes", "$HEARTHKV_OVEN_IS_LIT is 'yes', must be true or false"),
        ],
    )
    def test_a_variable_that_can_not_be_read_is_named(self, name, value, text):
        assert refusal(environment={variable_name("oven", name): value}) == text

    def test_a_flag_that_can_not_be_read_is_named(self):
        assert refusal(flags={"block": "x"}) == "--block is 'x', must be a whole number"

    def test_the_field_is_blamed_and_not_one_that_its_name_or_text_contains(self):
        text = refusal(table={"name": "a"}, flags={"block_size": "0"})
        assert text.startswith("--block-size (block_size): [oven] block_size is 0, must be")

    def test_a_complaint_about_no_field_is_about_the_settings(self):
        assert refusal(table={"name": "a", "heat": -1.0}) == "settings: [oven] too cold"

    def test_every_part_of_a_sum_is_blamed(self):
        text = refusal(KV_CACHE, table={"dram_ratio": 0.6}, flags={"hbm_ratio": "0.3"})
        assert text == (
            "--hbm-ratio (hbm_ratio), hearthkv.toml (dram_ratio), default (ssd_ratio): [kv_cache] "
            "hbm_ratio + dram_ratio + ssd_ratio is 1.1 (0.3 + 0.6 + 0.2), must be 1"
        )

    @pytest.mark.parametrize(
        ("table", "text"),
        [
            ({"offload_threshold": 0.0}, "offload_threshold is 0.0, must be in (0, 1]"),
            ({"offload_threshold": 2}, "offload_threshold is 2.0, must be in (0, 1]"),
            (
                {"eviction_policy": "mru"},
                "eviction_policy is 'mru', must be one of " + ", ".join(EVICTION_POLICIES),
            ),
            ({"cache_capacity_gb": -1}, "cache_capacity_gb is -1.0, must be over 0 and finite"),
        ],
    )
    def test_an_impossible_cache_names_file_field_value_and_what_is_allowed(self, table, text):
        (name,) = table
        assert refusal(KV_CACHE, table=table) == f"hearthkv.toml ({name}): [kv_cache] {text}"

    def test_a_password_is_not_shown_in_a_refusal(self):
        text = refusal(table={"racks": "redis://user:hush@host:6379/0"})
        assert "hush" not in text
        assert "redis://user:***@host:6379/0" in text


class TestDescribe:
    def test_every_field_is_shown_with_its_source(self):
        loaded = bake(table={"name": "a"}, flags={"racks": "x,y"})
        assert describe("oven", loaded, frozenset({"racks", "doors"})) == [
            "[oven]",
            'name = "a"  # hearthkv.toml',
            "heat = 1.5  # default",
            "block = 4  # default",
            "block_size = 16  # default",
            "is_lit = false  # default",
            'racks = "***"  # --racks',
            "doors = []  # default",
            "# owner is not set",
        ]

    @given(
        name=st.text(st.characters(codec="utf-8")),
        heat=st.floats(0, allow_nan=False),
        racks=st.lists(st.text(st.characters(codec="utf-8"))),
    )
    def test_what_is_shown_can_be_read_again(self, name, heat, racks):
        loaded = bake(table={"name": name, "heat": heat, "racks": racks})
        tables = tomllib.loads("\n".join(describe("oven", loaded, frozenset())))
        assert bake(table=tables["oven"]).settings == loaded.settings


def test_a_misspelt_variable_is_refused_and_one_of_another_kind_let_be():
    kubernetes = {"HEARTHKV_OVEN_PORT_7400_TCP_ADDR": "10.0.0.1", "HEARTHKV_OVEN_SERVICE_HOST": "x"}
    assert bake(table={"name": "a"}, environment=kubernetes).settings.name == "a"
    text = "$HEARTHKV_OVEN_BLOCK_SIZ is no setting; did you mean $HEARTHKV_OVEN_BLOCK_SIZE?"
    assert refusal(environment={"HEARTHKV_OVEN_BLOCK_SIZ": "3"}) == text
