"""YAML as people write it, and errors that name file and line."""

from __future__ import annotations

import pytest

from rlzoo.config.values_as_text import Name, dump_yaml, key_lines, load_yaml, parse_value, read_yaml
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
    text = "activation_fn: !!python/name:torch.nn.modules.activation.ReLU ''"
    assert load_yaml(text, "f") == {"activation_fn": Name("torch.nn.modules.activation.ReLU")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1,\nc: 2", "f.yml, line 3: "),
        ("a:\n  b: 1\n c: 2", "f.yml, line 3: "),
        ("a: 1\n\ta: 2", "f.yml, line 2: "),
        ("x:\n  a: 1\n  b: 2\n  a: 3", "f.yml, line 4: 'a' is given twice"),
        ("a: *nowhere", "f.yml, line 1: "),
        ("a: !!python/object/apply:os.getcwd []", "f.yml, line 1: "),
        ("a: !!int many", "f.yml, line 1: 'many' is no int"),
        ("a: \x00", "f.yml: not YAML: "),
        ("? [1]\n: 2", "f.yml, line 1: "),
    ],
)
def test_malformed_yaml_is_one_line_with_file_and_line(text, message):
    with pytest.raises(UserError) as caught:
        load_yaml(text, "f.yml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def _aliases(start: str, entry: str, levels: int, copies: int) -> str:
    lines = [f"a{i}: &a{i} {entry.format(', '.join([f'*a{i - 1}'] * copies))}" for i in range(1, levels)]
    return "\n".join([f"a0: &a0 {start}", *lines])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a {b: *a}", "a value holds itself"),
        ("a: &a [*a]", "a value holds itself"),
        (f"a: {'[' * 500}{']' * 500}", "nested more than 100 levels deep"),
        ("[" * 60_000, "nested more than 100 levels deep"),
        ("- " * 60_000 + "a", "nested more than 100 levels deep"),
        (_aliases("[1]", "[{}]", 200, 1), "nested more than 100 levels deep"),
        (_aliases("[1]", "[{}]", 9, 9), "more than 300,000 values"),
        (_aliases("{k: 1}", "{{<<: [{}]}}", 9, 10), "more than 300,000 values"),
        ("[" + "1," * 300_001, "more than 300,000 values"),
    ],
    ids=["itself", "own list", "deep", "very deep", "blocks", "deep aliases", "aliases", "merges", "long"],
)
def test_what_would_never_end_is_refused(text, message):
    for read in (lambda: load_yaml(text, "f"), lambda: parse_value(f"{{{text}}}")):
        with pytest.raises(UserError) as caught:
            read()
        assert len(str(caught.value)) < 100
    with pytest.raises(UserError, match=f"^f, line [0-9]+: {message}$"):
        load_yaml(text, "f")


@pytest.mark.parametrize(
    "text",
    [
        "!!bool x",
        '!!int ""',
        "!!float x",
        "!!timestamp x",
        "!!binary x",
        "!!int 1" + ":1" * 200_000,
        "!!python/object/apply:collections.OrderedDict [5]",
        "? !!python/tuple [[a]]\n: 1",
        "!!python/name:a-b ''",
        "!!python/name:a.b [1]",
    ],
)
def test_tag_that_does_not_fit_its_value_is_one_line(text):
    with pytest.raises(UserError, match=r"^f(, line 1)?: .{,90}$"):
        load_yaml(text, "f")
    assert parse_value(text) == text  # on the command line it is a text


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
