"""The rename table: complete, lossless, and strict about what it is given."""

from __future__ import annotations

import pytest
import torch

from reference_tests.pretrained.small_model import SIZES, random_state
from scratch_transformer.pretrained import SentenceEncoder, from_bert, to_bert
from scratch_transformer.pretrained.names import UNUSED, rename_table

LAYERS = SIZES.num_hidden_layers


def test_every_parameter_is_filled_and_nothing_else():
    ours = SentenceEncoder(SIZES).state_dict()
    renamed = from_bert(random_state(), LAYERS)
    assert {name: t.shape for name, t in renamed.items()} == {name: t.shape for name, t in ours.items()}


def test_every_bert_tensor_is_used_once_or_listed_as_unused():
    used = [name for theirs in rename_table(LAYERS).values() for name in theirs]
    assert len(used) == len(set(used))
    assert set(used) | UNUSED == set(random_state())
    assert not set(used) & UNUSED


def test_there_and_back_is_lossless():
    state = random_state()
    back = to_bert(from_bert(state, LAYERS), LAYERS)
    assert set(back) == set(state) - UNUSED
    assert all(torch.equal(back[name], state[name]) for name in back)


def test_query_key_and_value_are_stacked_in_this_order():
    state = random_state()
    parts = [state[f"encoder.layer.1.attention.self.{name}.weight"] for name in ("query", "key", "value")]
    stacked = from_bert(state, LAYERS)["encoder.layers.1.self_attn.in_proj_weight"]
    assert torch.equal(stacked, torch.cat(parts))


@pytest.mark.parametrize("name", sorted(set(random_state()) - UNUSED))
def test_a_missing_tensor_is_named(name):
    state = random_state()
    del state[name]
    with pytest.raises(ValueError, match=f"missing {name}"):
        from_bert(state, LAYERS)


def test_an_unknown_tensor_is_named():
    with pytest.raises(ValueError, match=r"missing none; unknown encoder\.rotary$"):
        from_bert(random_state() | {"encoder.rotary": torch.ones(1)}, LAYERS)


def test_another_number_of_layers_is_noticed():
    with pytest.raises(ValueError, match=r"of 3 layers: missing encoder\.layer\.2\..* and 12 more; unknown none"):
        from_bert(random_state(), 3)
    with pytest.raises(ValueError, match=r"of 1 layers: missing none; unknown encoder\.layer\.1\..* and 12 more"):
        from_bert(random_state(), 1)


def test_unequal_query_key_value_are_refused_even_where_they_add_up():
    state = random_state()
    name = "encoder.layer.0.attention.self.{}.weight".format
    whole = torch.cat([state[name("query")], state[name("key")]])
    state[name("query")], state[name("key")] = whole.split([20, 4])
    with pytest.raises(ValueError, match="must have one shape"):
        from_bert(state, LAYERS)
