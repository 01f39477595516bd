"""Reading language models from Hugging Face folders. `test_huggingface_causal.py` reads what transformers writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from reference_tests import plain_decoder
from reference_tests.pretrained.small_model import needs_readers
from reference_tests.small_language_model import CONFIGS
from scratch_transformer.functional import RotaryScaling
from scratch_transformer.language_model import Config, LanguageModel
from scratch_transformer.pretrained import from_pretrained
from scratch_transformer.pretrained.causal import INDEX, stop_ids
from scratch_transformer.pretrained.causal_config import read_causal_config
from scratch_transformer.pretrained.causal_names import rename_table, renamed

GPT2 = {
    "model_type": "gpt2", "vocab_size": 41, "n_positions": 30, "n_embd": 24, "n_layer": 2, "n_head": 6, "n_inner": 34,
    "layer_norm_epsilon": 1e-3, "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "vocab_size": 41, "max_position_embeddings": 30, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 10, "intermediate_size": 34, "rms_norm_eps": 1e-3,
    "rope_theta": 60.0, "hidden_act": "silu", "rope_scaling": None, "eos_token_id": 2,
}  # fmt: skip
QWEN3 = LLAMA | {"model_type": "qwen3", "attention_bias": False, "use_sliding_window": False, "sliding_window": None}
MISTRAL = LLAMA | {"model_type": "mistral", "sliding_window": None}
QWEN2 = LLAMA | {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": None}
FAMILIES = {"gpt2": GPT2, "llama": LLAMA, "mistral": MISTRAL, "qwen2": QWEN2, "qwen3": QWEN3}
EXPECTED = {
    "gpt2": CONFIGS["gpt2"],
    "llama": CONFIGS["llama2"],
    "mistral": CONFIGS["llama2"],
    "qwen3": CONFIGS["qwen3"],
}
EXPECTED["qwen2"] = replace(CONFIGS["llama2"], bias=True, output_bias=False)
every_family = pytest.mark.parametrize("family", FAMILIES)


def theirs_of(family, config, state):
    """A state_dict under Hugging Face's names: the inverse of reading, spelled out."""
    found = {}
    for ours, source in rename_table(family, config).items():
        tensor = state[ours].T if source.is_transposed else state[ours]
        found.setdefault(source.name, {})[source.third or 0] = tensor
    return {name: torch.cat([parts[i] for i in sorted(parts)], dim=-1) for name, parts in found.items()}


def write(folder, values, dtype=torch.float32, files=1):
    """A folder in Hugging Face's layout, with random weights in one file or several."""
    from safetensors.torch import save_file

    (folder / "config.json").write_text(json.dumps(values))
    family, config = read_causal_config(folder)
    model = LanguageModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    model = model.to(dtype)
    state = {name: x.detach().contiguous() for name, x in theirs_of(family, config, model.state_dict()).items()}
    if files == 1:
        save_file(state, folder / "model.safetensors")
    else:
        names = {name: f"model-{i % files + 1:05}-of-{files:05}.safetensors" for i, name in enumerate(state)}
        for file in set(names.values()):
            save_file({name: x for name, x in state.items() if names[name] == file}, folder / file)
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return model.eval(), state


# ---- The settings ----


@every_family
def test_settings_become_a_config(family, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES[family]))
    assert read_causal_config(tmp_path) == (family, EXPECTED[family])


def config_of(folder, values):
    (folder / "config.json").write_text(json.dumps(values))
    return read_causal_config(folder)[1]


def test_what_is_not_said_is_what_transformers_takes_for_it(tmp_path):
    sizes = {
        "model_type": "llama", "vocab_size": 41, "max_position_embeddings": 30, "hidden_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 34,
    }  # fmt: skip
    common = {"vocab_size": 41, "max_length": 30, "d_model": 24, "num_layers": 2, "num_heads": 6}
    rotary = common | {"num_kv_heads": 6, "d_ff": 34, "norm_eps": 1e-6, "rope_base": 10_000.0, "tie_embeddings": False}
    assert config_of(tmp_path, sizes) == Config.llama(**rotary, head_dim=4)
    assert config_of(tmp_path, sizes | {"model_type": "qwen3"}) == Config.qwen3(**rotary, head_dim=128)
    gpt2 = {"vocab_size": 41, "n_positions": 30, "n_embd": 24, "n_layer": 2, "n_head": 6, "n_inner": None}
    assert config_of(tmp_path, gpt2 | {"model_type": "gpt2"}) == Config.gpt2(**common, d_ff=96)


LLAMA3 = {
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(
    ("rotary", "base", "scaling"),
    [
        ({"rope_theta": 5e5}, 5e5, None),
        ({"rope_theta": 500000}, 5e5, None),
        ({"rope_scaling": {"type": "linear", "factor": 4}}, 60.0, RotaryScaling(4)),
        ({"rope_scaling": LLAMA3 | {"rope_type": "llama3"}}, 60.0, RotaryScaling(8.0, 1.0, 4.0, 8192)),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}, "rope_theta": None}, 7.0, None),
        ({"rope_parameters": LLAMA3 | {"rope_type": "llama3", "rope_theta": 9.0}}, 9.0, RotaryScaling(8, 1, 4, 8192)),
    ],
    ids=str,
)
def test_rotary_positions_in_the_old_and_the_new_form(rotary, base, scaling, tmp_path):
    config = config_of(tmp_path, LLAMA | rotary)
    assert (config.rope_base, config.rope_scaling) == (base, scaling)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("llama", {"model_type": "mamba"}, "model_type is 'mamba'; expected gpt2, llama, mistral, qwen2, qwen3"),
        ("llama", {"hidden_size": None}, "hidden_size is missing"),
        ("llama", {"hidden_size": 24.5}, "hidden_size is 24.5; expected a whole number"),
        ("llama", {"num_attention_heads": 0, "head_dim": None}, "num_heads must divide d_model=24, .* but is 0"),
        ("gpt2", {"n_head": 5}, "num_heads must divide d_model=24, or head_dim be given, but is 5"),
        ("llama", {"num_hidden_layers": 0}, "num_layers must be at least 1, but is 0"),
        ("llama", {"num_key_value_heads": 4}, "num_kv_heads must divide num_heads=6, but is 4"),
        ("llama", {"rms_norm_eps": "small"}, "rms_norm_eps is 'small'; expected a number"),
        ("llama", {"mlp_bias": "yes"}, "mlp_bias is 'yes'; expected true or false"),
        ("llama", {"hidden_act": "xielu"}, "hidden_act is 'xielu'; expected gelu, "),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "has the type 'yarn'; expected default"),
        ("llama", {"rope_scaling": {"rope_type": "linear"}}, "factor is None; expected a number"),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": -1}}, "factor"),
        ("llama", {"rope_scaling": 8}, "rope_scaling is 8; expected a table"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantized weights"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5; only 1.0 is supported"),
        ("llama", {"sliding_window": 4096}, "sliding_window is 4096; only None is supported"),
        ("mistral", {"sliding_window": 4096}, "sliding_window is 4096; only None is supported"),
        ("qwen2", {"use_sliding_window": True}, "use_sliding_window is True; only False is supported"),
        ("qwen3", {"use_sliding_window": True}, "use_sliding_window is True; only False is supported"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True; only False"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention is True; only False is supported"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_model_cannot_do_is_refused(family, changes, message, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES[family] | changes))
    with pytest.raises(ValueError, match=message) as caught:
        read_causal_config(tmp_path)
    assert str(tmp_path / "config.json") in str(caught.value)


# ---- The weights ----


@needs_readers
@every_family
def test_the_model_computes_what_the_files_define(family, tmp_path):
    written, _ = write(tmp_path, FAMILIES[family])
    model = from_pretrained(tmp_path, dtype=torch.float64)
    ids = torch.randint(41, (3, 7))
    state = {name: p.double() for name, p in written.state_dict().items()}
    expected = plain_decoder.logits(model.config, state, ids)
    assert ((model(ids) - expected).norm() / expected.norm()).item() < 1e-12
    assert not model.training and all(p.requires_grad for p in model.parameters())


@needs_readers
@every_family
def test_several_files_are_one_model(family, tmp_path):
    written, _ = write(tmp_path, FAMILIES[family], files=3)
    for name, parameter in from_pretrained(tmp_path).state_dict().items():
        assert torch.equal(parameter, written.state_dict()[name]), name


@needs_readers
@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_widened_or_kept(stored, tmp_path):
    written, _ = write(tmp_path, LLAMA, stored)
    assert {p.dtype for p in from_pretrained(tmp_path).parameters()} == {torch.float32}
    kept = from_pretrained(tmp_path, dtype=None)
    assert {p.dtype for p in kept.parameters()} == {stored}
    assert all(torch.equal(x, written.state_dict()[name]) for name, x in kept.state_dict().items())


@needs_readers
def test_the_head_may_be_in_the_file_though_it_is_tied(tmp_path):
    from safetensors.torch import save_file

    _, state = write(tmp_path, GPT2)
    embedding = state["transformer.wte.weight"]
    save_file(state | {"lm_head.weight": embedding.clone()}, tmp_path / "model.safetensors")
    assert from_pretrained(tmp_path).head is None
    save_file(state | {"lm_head.weight": embedding + 1}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"lm_head.weight differs from the embedding"):
        from_pretrained(tmp_path)


@every_family
def test_old_names_and_constants(family):
    """Without the model's own prefix, and with the masks and frequencies that were once kept in the file."""
    config = CONFIGS["gpt2-untied-exact-gelu"] if family == "gpt2" else EXPECTED[family]
    ours = LanguageModel(config).state_dict()
    state = theirs_of(family, config, ours)
    prefix = "transformer." if family == "gpt2" else "model."
    old = {name.removeprefix(prefix): x for name, x in state.items()}
    layer = "h.0.attn." if family == "gpt2" else "layers.0.self_attn."
    constants = {f"{layer}{name}": torch.ones(1) for name in ("bias", "masked_bias", "rotary_emb.inv_freq")}
    constants = {name: x for name, x in constants.items() if ("inv_freq" in name) == (family != "gpt2")}
    for given in (state, old, old | constants):
        found = renamed(family, config, given)
        assert found.keys() == ours.keys()
        assert all(torch.equal(found[name], ours[name]) for name in ours)


@every_family
def test_every_parameter_has_one_place_and_no_place_is_used_twice(family):
    config = CONFIGS["llama-biases-tied-gelu"] if family == "llama" else EXPECTED[family]
    table = rename_table(family, config)
    assert table.keys() == LanguageModel(config).state_dict().keys()
    assert len(set(table.values())) == len(table)


@every_family
def test_missing_and_unknown_tensors_are_named(family):
    config = EXPECTED[family]
    state = theirs_of(family, config, LanguageModel(config).state_dict())
    for name in state:
        with pytest.raises(ValueError, match=f"of 2 layers: missing {name}"):
            renamed(family, config, {key: x for key, x in state.items() if key != name})
    with pytest.raises(ValueError, match=r"missing none; unknown .*more\.weight"):
        renamed(family, config, state | {"more.weight": torch.ones(1)})


@needs_readers
def test_shapes_that_do_not_fit_are_told(tmp_path):
    write(tmp_path, LLAMA)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"intermediate_size": 35}))
    with pytest.raises(ValueError, match=r"(?s)do not fit its config.json: .*feed_forward.gate_proj"):
        from_pretrained(tmp_path)


@needs_readers
def test_broken_folders_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        from_pretrained(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="no file .*config.json"):
        from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    with pytest.raises(FileNotFoundError, match="no file .*model.safetensors"):
        from_pretrained(tmp_path)
    for index, message in (
        ({}, "weight_map is NoneType; expected a table"),
        ({"weight_map": {"x": "../elsewhere.safetensors"}}, "names the file '../elsewhere.safetensors'; expected one"),
    ):
        (tmp_path / INDEX).write_text(json.dumps(index))
        with pytest.raises(ValueError, match=message):
            from_pretrained(tmp_path)
    write(tmp_path, LLAMA, files=2)
    index = json.loads((tmp_path / INDEX).read_text())
    index["weight_map"]["lost.weight"] = "model-00001-of-00002.safetensors"
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"lost.weight is not in model-00001-of-00002.safetensors"):
        from_pretrained(tmp_path)


# ---- What ends a text ----


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"config.json": {}}, ()),
        ({"config.json": {"eos_token_id": 7}}, (7,)),
        ({"config.json": {"eos_token_id": 7}, "generation_config.json": {}}, (7,)),
        ({"config.json": {"eos_token_id": 7}, "generation_config.json": {"eos_token_id": [8, 9]}}, (8, 9)),
    ],
    ids=str,
)
def test_stop_ids(files, expected, tmp_path):
    for name, values in files.items():
        (tmp_path / name).write_text(json.dumps(values))
    assert stop_ids(tmp_path) == expected


def test_a_stop_id_that_is_none_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"eos_token_id": "</s>"}')
    with pytest.raises(ValueError, match="eos_token_id is '</s>'; expected a token's number"):
        stop_ids(tmp_path)
