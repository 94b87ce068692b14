"""YAML as people write it, and errors that name file and line."""

from __future__ import annotations

import pytest

from rlzoo.config.yaml_text import dump_yaml, key_lines, load_yaml, read_yaml
from rlzoo.core.errors import UserError


def test_numbers_null_and_texts():
    text = (
        "a: 1e-3\nb: !!float 1e6\nc: None\nd: -2E5\ne: 1:30\nf: 010\ng: 2020-01-01\nh: 1_000\ni: .5\nj: 0x10"
    )
    assert load_yaml(text, "f") == {
        "a": 0.001,
        "b": 1e6,
        "c": None,
        "d": -2e5,
        "e": "1:30",
        "f": "010",
        "g": "2020-01-01",
        "h": 1000,
        "i": 0.5,
        "j": 16,
    }


def test_anchors_merge_and_may_be_overridden():
    assert load_yaml("x: &d\n  k: 1\n  l: 2\ny:\n  <<: *d\n  k: 3\n", "f")["y"] == {"k": 3, "l": 2}


def test_the_tags_of_rl_zoo3_are_read_as_plain_values():
    text = (
        "!!python/object/apply:collections.OrderedDict\n- - - batch_size\n    - 256\n"
        "  - - train_freq\n    - !!python/tuple\n      - 1\n      - episode\n"
    )
    assert load_yaml(text, "f") == {"batch_size": 256, "train_freq": (1, "episode")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1,\nc: 2", "f.yml, line 3: "),
        ("a:\n  b: 1\n c: 2", "f.yml, line 3: "),
        ("a: 1\n\ta: 2", "f.yml, line 2: "),
        ("x:\n  a: 1\n  b: 2\n  a: 3", "f.yml, line 4: 'a' is given twice"),
        ("a: *nowhere", "f.yml, line 1: "),
        ("a: !!python/object/apply:os.getcwd []", "f.yml, line 1: "),
        ("a: !!int many", "f.yml: not YAML: "),
        ("a: \x00", "f.yml: not YAML: "),
        ("? [1]\n: 2", "f.yml, line 1: "),
    ],
)
def test_malformed_yaml_is_one_line_with_file_and_line(text, message):
    with pytest.raises(UserError) as caught:
        load_yaml(text, "f.yml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {b: *a}",
        "a: &a [*a]",
        f"a: {'[' * 500}{']' * 500}",
        "\n".join(["a0: &a0 [1]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))]),
    ],
    ids=["mapping in itself", "list in itself", "too deep", "too many"],
)
def test_what_would_never_end_is_refused(text):
    with pytest.raises(UserError, match=r"^f: not YAML: it holds too many values"):
        load_yaml(text, "f")


def test_an_alias_may_be_used_often():
    assert len(load_yaml("a: &a {b: [1, 2]}\n" + "".join(f"c{i}: *a\n" for i in range(500)), "f")) == 501


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_yaml(tmp_path / "missing.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="not a text file"):
        read_yaml(tmp_path / "binary.yml")


def test_dump_reads_back_and_is_readable():
    values = {
        "a": 1e-05,
        "b": {"c": [1, 2], "d": {"e": None}},
        "f": "1e-3",
        "g": "lin_3e-4",
        "h": [{"i": 1}],
        "j": True,
    }
    text = dump_yaml(values)
    assert load_yaml(text, "f") == values
    assert "a: 1.0e-05\n" in text and "  c: [1, 2]\n" in text
    same = [1]
    assert "&" not in dump_yaml({"a": same, "b": same})


def test_key_lines():
    assert key_lines("# head\na:\n  x: 1\n\n  y: 2\nb: 3\n") == {
        ("a",): 2,
        ("a", "x"): 3,
        ("a", "y"): 5,
        ("b",): 6,
    }
