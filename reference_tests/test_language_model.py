"""The language model: equal to its definition on torch's functions, with a cache as without, in a batch as alone.

`pretrained/test_huggingface_causal.py` compares it with transformers' own models.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from unittest import mock

import pytest
import torch

from reference_tests import plain_decoder
from reference_tests.small_language_model import CONFIGS, SIZES, B, L, padded_batch, small_model
from scratch_transformer import functional, masks, nn
from scratch_transformer.language_model import Config, LanguageModel

every_config = pytest.mark.parametrize("name", CONFIGS)


def error(ours, expected):
    return ((ours - expected).norm() / expected.norm()).item()


def random_ids(model):
    return torch.randint(model.config.vocab_size, (B, L))


# ---- Equality ----


@every_config
def test_logits_and_all_gradients_are_those_of_the_definition(name):
    model = small_model(name)
    ids, upstream = random_ids(model), torch.randn(B, L, SIZES["vocab_size"], dtype=torch.float64)
    state = {key: p.detach().clone().requires_grad_() for key, p in model.named_parameters()}
    expected, found = plain_decoder.logits(model.config, state, ids), model(ids)
    assert error(found, expected) < 1e-12
    (expected * upstream).sum().backward()
    (found * upstream).sum().backward()
    total = torch.cat([p.grad.flatten() for p in state.values()]).norm()
    for key, parameter in model.named_parameters():
        # a key's bias, unless it is turned, changes no probability: its gradient is nothing but rounding
        scale = total if key.endswith("k_proj.bias") else state[key].grad.norm()
        assert (parameter.grad - state[key].grad).norm() <= 1e-12 * scale, key


def test_gpt2_is_torchs_encoder_with_a_causal_mask():
    """Where the two meet: pre-norm, learned positions, exact GELU."""
    model = small_model("gpt2-untied-exact-gelu")
    c = model.config
    layer = torch.nn.TransformerEncoderLayer(
        c.d_model, c.num_heads, c.d_ff, 0.0, "gelu", c.norm_eps, batch_first=True, norm_first=True
    )
    norm = torch.nn.LayerNorm(c.d_model, c.norm_eps)
    theirs = torch.nn.TransformerEncoder(layer, c.num_layers, norm, enable_nested_tensor=False).double().eval()
    theirs.load_state_dict(as_encoder(model.state_dict(), c.num_layers), strict=True)
    ids = random_ids(model)
    x = (model.embedding.weight[ids] + model.positions.weight[:L]).detach()
    expected = theirs(x, mask=torch.nn.Transformer.generate_square_subsequent_mask(L, dtype=torch.float64))
    assert error(model.states(ids), expected) < 1e-12
    upstream = torch.randn(B, L, c.d_model, dtype=torch.float64)
    for states in (model.states(ids), expected):
        (states * upstream).sum().backward()
    found = as_encoder({key: p.grad for key, p in model.named_parameters() if p.grad is not None}, c.num_layers)
    for key, parameter in theirs.named_parameters():
        assert error(found[key], parameter.grad) < 1e-12, key


def as_encoder(state, num_layers):
    """Ours -> torch's names; query, key and value one above the other."""
    found = {f"norm.{kind}": state[f"norm.{kind}"] for kind in ("weight", "bias")}
    for i in range(num_layers):
        for kind in ("weight", "bias"):
            of = lambda part, i=i, kind=kind: state[f"blocks.{i}.{part}.{kind}"]  # noqa: E731
            found |= {
                f"layers.{i}.self_attn.in_proj_{kind}": torch.cat([of(f"attention.{x}_proj") for x in "qkv"]),
                f"layers.{i}.self_attn.out_proj.{kind}": of("attention.o_proj"),
                f"layers.{i}.linear1.{kind}": of("feed_forward.up_proj"),
                f"layers.{i}.linear2.{kind}": of("feed_forward.down_proj"),
                f"layers.{i}.norm1.{kind}": of("attention_norm"),
                f"layers.{i}.norm2.{kind}": of("feed_forward_norm"),
            }
    return found


@every_config
@torch.no_grad()
def test_padding_on_the_left_changes_nothing(name):
    model = small_model(name)
    ids, mask = padded_batch(model.config.vocab_size)
    logits = model(ids, mask=mask)
    assert logits.isfinite().all()
    for row, text, keep in zip(logits, ids, mask, strict=True):
        assert error(row[keep], model(text[keep].unsqueeze(0))[0]) < 1e-12
    with torch.no_grad():
        other = torch.where(mask, ids, (ids + 1) % model.config.vocab_size)
        assert error(model(other, mask=mask)[mask], logits[mask]) < 1e-12


@every_config
@torch.no_grad()
def test_several_texts_in_one_row_are_as_alone(name):
    """Packing: each token sees its own text only, and is counted from its beginning."""
    model = small_model(name)
    first, second = torch.randint(41, (1, 3)), torch.randint(41, (1, 4))
    text = torch.tensor([0] * 3 + [1] * 4)
    own = (text[:, None] == text[None, :]).view(1, 1, 7, 7)
    positions = torch.tensor([0, 1, 2, 0, 1, 2, 3])
    logits = model(torch.cat([first, second], dim=1), mask=own, positions=positions)
    assert error(logits[:, :3], model(first)) < 1e-12
    assert error(logits[:, 3:], model(second)) < 1e-12


@every_config
@pytest.mark.parametrize("cuts", [(1, 2, 3, 4, 5, 6), (5,), (3, 6)], ids=str)
@torch.no_grad()
def test_with_a_cache_it_is_as_without(name, cuts):
    model = small_model(name)
    ids, mask = padded_batch(model.config.vocab_size)
    for given in (None, mask):
        cache = nn.KeyValueCache(model.config.num_layers, capacity=2)
        pieces = [
            model(ids[:, a:b], cache, None if given is None else given[:, :b])
            for a, b in zip((0, *cuts), (*cuts, L), strict=True)
        ]
        seen = torch.ones_like(mask) if given is None else mask
        assert error(torch.cat(pieces, dim=1)[seen], model(ids, mask=given)[seen]) < 1e-12


@every_config
@torch.no_grad()
def test_no_token_sees_the_future(name):
    model = small_model(name)
    ids = random_ids(model)
    changed = ids.clone()
    changed[:, 4:] = (ids[:, 4:] + 1) % 41
    logits, after = model(ids), model(changed)
    assert torch.equal(logits[:, :4], after[:, :4])
    assert (logits[:, 4:] != after[:, 4:]).any(-1).all()


@torch.no_grad()
def test_rotary_positions_depend_on_distances_alone():
    model, ids = small_model("llama2"), torch.randint(41, (B, L))
    assert error(model(ids, positions=torch.arange(L) + 11), model(ids)) < 1e-12
    assert error(model(ids, positions=torch.arange(L) * 2), model(ids)) > 1e-3


# ---- These tests can fail: mistakes that they must notice ----


def turned_by(change):
    """The model's rotary turns, changed by the mistake."""
    right = nn.RotaryEmbedding.turns
    return mock.patch.object(
        nn.RotaryEmbedding, "turns", lambda self, positions, dtype: change(self, right, positions, dtype)
    )


def rotary(change):
    """The turning of queries and keys, changed by the mistake."""
    right = functional.rotary
    return mock.patch.object(functional, "rotary", lambda x, turns, interleaved: change(right, x, turns))


def attention(change):
    """The attention core, with query, key and value changed by the mistake."""
    from scratch_transformer.nn import causal_self_attention as module

    right = module.scaled_dot_product_attention
    return mock.patch.object(
        module,
        "scaled_dot_product_attention",
        lambda q, k, v, *rest, **options: right(*change(q, k, v), *rest, **options),
    )


def repeated_in_the_wrong_order(q, k, v):
    return q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)


def swapped(right, self, x):
    return self.down_proj(functional.silu(self.up_proj(x)) * self.gate_proj(x))


def forgotten(right, self, x):
    return self.down_proj(self.gate_proj(x) * self.up_proj(x))


def gate(change):
    right = nn.GatedFeedForward.forward
    return mock.patch.object(nn.GatedFeedForward, "forward", lambda self, x: change(right, self, x))


MISTAKES = {
    "neighbours are paired": rotary(lambda right, x, turns: right(x, turns, True)),
    "turned the other way": rotary(lambda right, x, turns: right(x, torch.stack([turns[0], -turns[1]]), False)),
    "queries alone are turned": rotary(lambda right, x, turns: right(x, turns, False) if x.shape[1] == 6 else x),
    "another base": turned_by(lambda self, right, *rest: right(nn.RotaryEmbedding(10, 61.0), *rest)),
    "values are turned": attention(lambda q, k, v: (q, k, nn.RotaryEmbedding(10, 60.0)(v, torch.arange(L)))),
    "keys are repeated in the wrong order": attention(repeated_in_the_wrong_order),
    "gate and up are exchanged": gate(swapped),
    "silu is forgotten": gate(forgotten),
    "the norm has another eps": mock.patch.object(
        nn.RMSNorm, "forward", lambda self, x: functional.rms_norm(x, x.shape[-1:], self.weight, 1.1e-3)
    ),
    "values are the keys": attention(lambda q, k, v: (q, k, k)),
    "scores are not scaled": attention(lambda q, k, v: (q * q.shape[-1] ** 0.5, k, v)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
@torch.no_grad()
def test_a_mistake_is_seen_in_the_logits(mistake):
    model = small_model("llama2")
    ids = random_ids(model)
    expected = plain_decoder.logits(model.config, dict(model.named_parameters()), ids)
    assert error(model(ids), expected) < 1e-12
    with MISTAKES[mistake]:
        assert error(model(ids), expected) > 1e-6


def again(keys):
    return nn.RotaryEmbedding(10, 60.0)(keys, torch.arange(keys.shape[2]))


CACHE_MISTAKES = {
    "every new token stands at position 0": turned_by(
        lambda self, right, positions, dtype: right(self, positions - positions.min(), dtype)
    ),
    "positions with a cache are off by one": turned_by(
        lambda self, right, positions, dtype: right(self, positions + (positions.min() > 0), dtype)
    ),
    "what is cached is turned again": attention(
        lambda q, k, v: (q, k if k.shape == v.shape[:2] + q.shape[2:] else again(k), v)
    ),
    "a key is lost": attention(lambda q, k, v: (q, k[:, :, -6:], v[:, :, -6:])),
}  # fmt: skip


@pytest.mark.parametrize("mistake", CACHE_MISTAKES)
@torch.no_grad()
def test_a_mistake_is_seen_with_a_cache(mistake):
    model = small_model("llama2")
    ids = random_ids(model)
    expected = model(ids)
    with CACHE_MISTAKES[mistake]:
        cache = nn.KeyValueCache(2)
        pieces = [model(ids[:, :5], cache), model(ids[:, 5:6], cache), model(ids[:, 6:], cache)]
    assert error(torch.cat(pieces, dim=1), expected) > 1e-6


# ---- Config ----


@pytest.mark.parametrize(
    ("make", "count"),
    [(Config.gpt2, 124_439_808), (Config.llama, 1_235_814_400), (Config.qwen3, 596_049_920)],
    ids=["GPT-2", "Llama 3.2 1B", "Qwen3 0.6B"],
)
def test_the_families_have_as_many_parameters_as_published(make, count):
    with torch.device("meta"):
        model = LanguageModel(make())
    assert sum(p.numel() for p in model.parameters()) == count


@every_config
def test_a_config_is_the_same_after_json(name):
    config = CONFIGS[name]
    assert Config(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "batch"}, "norm must be one of layer, rms, but is 'batch'"),
        ({"positions": "sinusoidal"}, "positions must be one of learned, rotary, but is 'sinusoidal'"),
        ({"activation": "swish"}, "activation must be one of .*, but is 'swish'"),
        ({"num_layers": 0}, "num_layers must be at least 1, but is 0"),
        ({"num_kv_heads": 4}, "num_kv_heads must divide num_heads=6, but is 4"),
        ({"head_dim": 5}, "head_dim must be even for rotary positions, but is 5"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, but is 1.0"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=f"Config: {message}"):
        dataclasses.replace(CONFIGS["llama2"], **changes)


def test_a_family_needs_heads_that_divide_the_width():
    with pytest.raises(ValueError, match="num_heads must divide d_model=24, or head_dim be given, but is 5"):
        Config.gpt2(d_model=24, num_heads=5)
    assert Config.llama(d_model=24, num_heads=5, num_kv_heads=5, head_dim=6).head_dim == 6


# ---- The model ----


@every_config
def test_initial_values(name):
    """N(0, 0.02²), what writes into the residual stream by √(2 layers) smaller; norms at one, biases at zero."""
    config = dataclasses.replace(CONFIGS[name], vocab_size=150, d_model=144, d_ff=300)
    for key, parameter in LanguageModel(config).named_parameters():
        if parameter.dim() == 1:
            assert torch.equal(parameter, torch.full_like(parameter, float("norm" in key and "weight" in key))), key
        else:
            expected = 0.01 if "o_proj" in key or "down_proj" in key else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.1), key
            assert abs(parameter.mean().item()) < 0.1 * expected, key


def test_dropout_is_where_gpt2_has_it():
    """Of embeddings, of attention weights, of each sublayer: all that is dropped changes the logits; none in eval."""
    config = dataclasses.replace(CONFIGS["gpt2"], dropout=0.3)
    model = LanguageModel(config)
    rates = [m.p for m in model.modules() if isinstance(m, nn.Dropout)]
    assert rates == [0.3] * (1 + config.num_layers)
    assert [block.attention.dropout for block in model.blocks] == [0.3] * config.num_layers
    ids = torch.randint(41, (B, L))
    assert not torch.equal(model.train()(ids), model(ids))
    assert torch.equal(model.eval()(ids), model(ids))


def test_a_tied_head_is_the_embedding():
    model = small_model("gpt2")
    assert model.head is None and "head.weight" not in model.state_dict()
    states = torch.randn(2, 24, dtype=torch.float64)
    assert torch.equal(model.project(states), states @ model.embedding.weight.T)


def test_state_and_copies():
    model = small_model("qwen3")
    again = LanguageModel(model.config).double().eval()
    again.load_state_dict(model.state_dict(), strict=True)
    ids = random_ids(model)
    assert torch.equal(again(ids), model(ids))
    assert torch.equal(copy.deepcopy(model)(ids), model(ids))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@torch.no_grad()
def test_lower_precision_is_near(dtype):
    model, ids = small_model("llama3.1"), torch.randint(41, (B, L))
    rounded = copy.deepcopy(model).to(dtype)
    golden = copy.deepcopy(rounded).double()(ids)
    logits = rounded(ids)
    assert logits.dtype == dtype
    assert error(logits.double(), golden) < 40 * torch.finfo(dtype).eps


@pytest.mark.long
def test_it_compiles_whole():
    model, ids = small_model("llama2"), torch.randint(41, (B, L))
    assert error(torch.compile(model, backend="aot_eager", fullgraph=True)(ids), model(ids)) < 1e-12


# ---- What is refused ----


def ones(*shape, dtype=torch.bool):
    return torch.ones(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        (torch.zeros(4).long(), None, r"ids must be \(B, L\), but have shape \(4,\)"),
        (torch.zeros(2, 31).long(), None, "31 tokens are more than its positions, max_length=30"),
        (torch.zeros(2, 4).long(), ones(2, 5), r"mask must be boolean of shape \(2, 4\).* of shape \(2, 5\)"),
        (torch.zeros(2, 4).long(), ones(2, 4, dtype=torch.long), r"mask must be boolean .* is torch.int64"),
    ],
)
def test_bad_input_is_refused(ids, mask, message):
    with pytest.raises(ValueError, match=message):
        small_model("gpt2")(ids, mask=mask)


def test_an_id_outside_the_vocabulary_is_refused():
    with pytest.raises(IndexError, match=r"ids must be in \[0, 41\)"):
        small_model("llama2")(torch.tensor([[41]]))


def test_the_causal_mask_of_this_package_changes_nothing():
    model, ids = small_model("llama2"), torch.randint(41, (B, L))
    assert torch.equal(model(ids, mask=masks.causal(L)[None, None]), model(ids))
