"""Plain functions: with weights as arguments in every form, of arrays, of sizes, of masks, of a model."""

import math

import numpy as np
import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit import check
from scratch_transformer.kit.resolve.functions.usage import structure_of

# ---- Weights as arguments ----


def linear(x, weight, bias=None):
    return x @ weight.T if bias is None else x @ weight.T + bias


def in_a_dictionary(x, params):
    hidden = linear(x, params["w1"], params["b1"]).relu()
    return linear(hidden, params["w2"], params["b2"])


def in_a_tuple(x, weights):
    w1, b1, w2, b2 = weights
    return (x @ w1 + b1).relu() @ w2 + b2


def in_an_object(x, p):
    return (x @ p.first_weight + p.first_bias).relu() @ p.second_weight + p.second_bias


def without_activation(x, W1, b1, W2, b2):
    return (x @ W1 + b1) @ W2 + b2


@pytest.mark.parametrize("function", [in_a_dictionary, in_a_tuple, in_an_object])
def test_a_network_whose_weights_are_arguments(function):
    result = check(function, "FeedForward")
    assert (result.verdict, result.ids) == ("matches the builtin", []), result


def test_a_mistake_of_a_function_is_named():
    assert check(without_activation, "FeedForward").ids == ["B16"]


def a_head_each(x, heads, w_o):
    outputs = []
    for head in heads:
        q, k, v = x @ head["w_q"], x @ head["w_k"], x @ head["w_v"]
        outputs.append(torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1) @ v)
    return torch.cat(outputs, -1) @ w_o


def of_one_sentence(x, w_qkv, w_out, num_heads):
    T, E = x.shape
    q, k, v = (x @ w_qkv).reshape(T, 3, num_heads, E // num_heads).permute(1, 2, 0, 3)
    scores = (q @ k.transpose(-2, -1)).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(T, E) @ w_out


def test_a_matrix_for_each_head():
    result = check(a_head_each, "SelfAttention")
    assert result.verdict == "matches the paper, not the builtin" and result.ids == ["A14"], result


def test_one_sentence_at_a_time_without_the_scale():
    result = check(of_one_sentence, "CausalSelfAttention")
    assert "A1" in result.ids and "It takes one sentence at a time." in result.notes, result


def test_the_structure_of_an_argument():
    def model(ids, table, layers):
        x = table[ids]
        for layer in layers:
            x = x + in_a_dictionary(x, layer["ff"])
        return x

    model.__globals__["in_a_dictionary"] = in_a_dictionary
    assert list(structure_of(model, "table").leaves(2, "table")) == ["table"]
    leaves = list(structure_of(model, "layers").leaves(2, "layers"))
    assert leaves[:2] == ["layers.0.ff.w1", "layers.0.ff.b1"] and len(leaves) == 8


# ---- Arrays, sizes ----


def array_norm(x, gamma, beta):
    return gamma * (x - x.mean(-1, keepdims=True)) / (np.std(x, -1, keepdims=True) + 1e-5) + beta


def norm_by_methods(x, gamma, beta, eps=1e-5):
    return gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps) + beta


def of_matrices(scores):
    rows, columns = scores.shape
    exponentials = torch.exp(scores - scores.max(dim=1)[0].reshape(rows, 1))
    return exponentials / exponentials.sum(dim=1).reshape(rows, 1).expand(rows, columns)


def of_matrices_by_columns(scores):
    rows, columns = scores.shape
    exponentials = torch.exp(scores - scores.max(dim=0)[0].reshape(1, columns))
    return exponentials / exponentials.sum(dim=0).reshape(1, columns).expand(rows, columns)


def along_one(tnsr, dim_i, temperature=1):
    exponentials = torch.exp((tnsr - tnsr.amax(dim_i, keepdim=True)) / temperature)
    return exponentials / exponentials.sum(dim_i, keepdim=True)


def sinusoid_table(d_hid, n_position):
    angle = [[pos / 10000 ** (2 * (i // 2) / d_hid) for i in range(d_hid)] for pos in range(n_position)]
    table = torch.tensor(angle)
    table[:, 0::2], table[:, 1::2] = table[:, 0::2].sin(), table[:, 1::2].cos()
    return table.unsqueeze(1)


def test_a_function_of_arrays():
    assert check(array_norm, "LayerNorm").ids == ["LN2"]
    assert check(norm_by_methods, "LayerNorm").ids == ["LN2"]  # an array's std divides by n


def test_a_softmax_of_matrices_alone():
    result = check(of_matrices, "softmax")
    assert result.verdict == "matches the builtin" and result.notes == ["It takes one matrix at a time."], result
    assert check(of_matrices_by_columns, "softmax").ids == ["A2"]
    assert check(along_one, "softmax").verdict == "matches the builtin"


def test_a_function_of_sizes_in_either_order():
    assert check(sinusoid_table, "PositionalEncoding").verdict.startswith("matches")


# ---- Masks ----


def of_two_sequences(seq_q, seq_k):
    return seq_k.eq(0).unsqueeze(1).expand(-1, seq_q.shape[1], -1)


def on_rows(seq_q, seq_k):
    return seq_q.eq(0).unsqueeze(2).expand(-1, -1, seq_k.shape[1])


def added_10000(attention_mask):
    return (1.0 - attention_mask[:, None, None, :].double()) * -10000.0


def on_both(src, pad_token_id=0):
    real = src != pad_token_id
    return real[:, None, None] & real[:, None, :, None]


def on_both_and_the_future(tgt, pad=0):
    blocked = tgt == pad
    future = torch.ones(tgt.shape[1], tgt.shape[1]).triu(1).bool()
    return blocked[:, None] | blocked[:, :, None] | future


def on_either(src, pad=0):
    real = src != pad
    return real[:, None, None] | real[:, None, :, None]


def of_tokens(x):
    return torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)


def hides_the_diagonal(size):
    return torch.ones(size, size).triu()


def of_one_sentence_s_ids(ids, pad_id):
    return (ids != pad_id)[None, None] & torch.ones(len(ids), len(ids)).tril().bool()


def of_one_sentence_s_rows(ids, pad_id):
    return (ids != pad_id)[:, None] & torch.ones(len(ids), len(ids)).tril().bool()


@pytest.mark.parametrize(
    "function, kind, ids",
    [
        (of_two_sequences, "PaddingMask", []),
        (on_rows, "PaddingMask", ["A7"]),
        (on_both, "PaddingMask", ["A11"]),
        (on_both_and_the_future, "TargetMask", ["A11"]),
        (of_one_sentence_s_ids, "TargetMask", []),
        (of_one_sentence_s_rows, "TargetMask", ["A7"]),
        (added_10000, "PaddingMask", ["A10"]),
        (of_tokens, "CausalMask", []),
        (hides_the_diagonal, "CausalMask", ["A6"]),
    ],
)
def test_masks_in_all_forms(function, kind, ids):
    assert check(function, kind).ids == ids


def test_rows_of_padding_that_are_blocked_are_harmless_and_those_that_are_open_are_not_right():
    assert [m.severity for m in check(on_both, "PaddingMask").mistakes] == ["harmless"]
    assert check(on_either, "PaddingMask").verdict == "unknown mismatch"


# ---- Decoding ----


@torch.no_grad()
def sampled(model, idx, max_new_tokens, temperature=1.0):
    model.eval()
    for _ in range(max_new_tokens):
        logits, _ = model(idx[:, -model.config.block_size :])
        probabilities = torch.softmax(logits[:, -1] / temperature, -1)
        idx = torch.cat([idx, torch.multinomial(probabilities, 1)], 1)
    return idx


def of_a_list(next_logits, bos, eos, max_len):
    words = [bos]
    while words[-1] != eos and len(words) < max_len:
        words.append(int(next_logits(words).argmin()))
    return words[1:]


def test_a_function_that_samples_takes_the_likeliest():
    result = check(sampled, "GreedyDecoding")
    assert result.ids == [] and any("at random" in note for note in result.notes), result


def test_a_function_of_the_next_words_scores():
    assert check(of_a_list, "GreedyDecoding").ids == ["D6"]


# ---- Adapters of an assignment: sizes first, the input last ----


def run_linear(d_in: int, d_out: int, weights: torch.Tensor, in_features: torch.Tensor):
    return in_features @ weights.T


def run_swiglu(d_model: int, d_ff: int, w1_weight, w2_weight, w3_weight, in_features: torch.Tensor):
    gate = in_features @ w1_weight.T
    return (gate * gate.sigmoid() * (in_features @ w3_weight.T)) @ w2_weight.T


def run_rmsnorm(d_model: int, eps: float, weights: torch.Tensor, in_features: torch.Tensor):
    return in_features * (in_features.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weights


def run_rope(d_k: int, theta: float, max_seq_len: int, in_query_or_key: torch.Tensor, token_positions: torch.Tensor):
    angles = token_positions[..., None] * theta ** (-torch.arange(0, d_k, 2) / d_k)
    a, b = in_query_or_key[..., ::2], in_query_or_key[..., 1::2]
    turned = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.stack(turned, -1).flatten(-2)


def run_gradient_clipping(parameters, max_l2_norm: float):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    for gradient in gradients if norm > max_l2_norm else ():
        gradient.mul_(max_l2_norm / (norm + 1e-6))


def run_lr_schedule(cur_step: int, lr_min: float, lr_max: float, warmup_step: int, cosine_cycle_step: int) -> float:
    if cur_step < warmup_step:
        return cur_step / warmup_step * lr_max
    if cur_step > cosine_cycle_step:
        return lr_min
    part = (cur_step - warmup_step) / (cosine_cycle_step - warmup_step)
    return lr_min + (1 + math.cos(part * math.pi)) / 2 * (lr_max - lr_min)


def run_multihead_self_attention(
    d_model: int, num_heads: int, q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight, in_features, rope,
    token_positions,
):  # fmt: skip
    def split(weight):
        return (in_features @ weight.T).unflatten(-1, (num_heads, -1)).transpose(-2, -3)

    q, k, v = split(q_proj_weight), split(k_proj_weight), split(v_proj_weight)
    if rope is not None:
        token_positions = torch.arange(q.shape[-2]) if token_positions is None else token_positions
        q, k = rope(q, token_positions), rope(k, token_positions)
    later = torch.ones(q.shape[-2], q.shape[-2]).triu(1).bool()
    scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf)
    return (scores.softmax(-1) @ v).transpose(-2, -3).flatten(-2) @ o_proj_weight.T


def run_multihead_self_attention_with_rope(
    d_model: int, num_heads: int, max_seq_len: int, theta: float, q_proj_weight, k_proj_weight, v_proj_weight,
    o_proj_weight, in_features, token_positions=None,
):  # fmt: skip
    d_k = d_model // num_heads
    angles = torch.outer(torch.arange(max_seq_len), theta ** (-torch.arange(0, d_k, 2) / d_k))

    def rope(x, positions):
        of_x = angles[positions]
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * of_x.cos() - b * of_x.sin(), a * of_x.sin() + b * of_x.cos()), -1).flatten(-2)

    weights = (q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight)
    return run_multihead_self_attention(d_model, num_heads, *weights, in_features, rope, token_positions)


ADAPTERS = {
    run_multihead_self_attention_with_rope: "CausalRotaryAttention",
    run_lr_schedule: "CosineSchedule", run_multihead_self_attention: "CausalRotaryAttention",
    run_linear: "Linear", run_swiglu: "SwiGLU", run_rmsnorm: "RMSNorm", run_rope: "RotaryEmbedding",
    run_gradient_clipping: "GradientClipping",
}  # fmt: skip


@pytest.mark.parametrize("function", ADAPTERS, ids=lambda function: function.__name__)
def test_an_adapter_of_an_assignment(function):
    assert check(function, ADAPTERS[function]).verdict == "matches the builtin"


def run_lr_schedule_to_zero(cur_step: int, lr_min: float, lr_max: float, warmup_step: int, cosine_cycle_step: int):
    return run_lr_schedule(cur_step, 0.0, lr_max, warmup_step, cosine_cycle_step)


def run_attention_of_doubled_queries(
    d_model: int, num_heads: int, q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight, in_features, rope,
    token_positions,
):  # fmt: skip
    weights = (2 * q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight)
    return run_multihead_self_attention(d_model, num_heads, *weights, in_features, rope, token_positions)


def run_turned_attention_of_doubled_queries(
    d_model: int, num_heads: int, max_seq_len: int, theta: float, q_proj_weight, k_proj_weight, v_proj_weight,
    o_proj_weight, in_features, token_positions=None,
):  # fmt: skip
    weights = (2 * q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight)
    sizes = (d_model, num_heads, max_seq_len, theta)
    return run_multihead_self_attention_with_rope(*sizes, *weights, in_features, token_positions)


@pytest.mark.parametrize("function, kind", [
    (run_lr_schedule_to_zero, "CosineSchedule"),
    (run_attention_of_doubled_queries, "CausalRotaryAttention"),
    (run_turned_attention_of_doubled_queries, "CausalRotaryAttention"),
])  # fmt: skip
def test_an_adapter_with_a_mistake(function, kind):
    assert check(function, kind).verdict in ("mistake", "unknown mismatch")


class Tiny(torch.optim.Optimizer):
    def __init__(self, parameters, learning_rate=1e-3, momentum_decay=0.9, variance_decay=0.999, weight_decay=0.01,
                 tiny=1e-8):  # fmt: skip
        options = {"lr": learning_rate, "b1": momentum_decay, "b2": variance_decay, "wd": weight_decay, "tiny": tiny}
        super().__init__(parameters, options)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["t"] = t = state.get("t", 0) + 1
                m, v = (state.setdefault(name, torch.zeros_like(p)) for name in ("m", "v"))
                p -= group["lr"] * group["wd"] * p
                m.lerp_(p.grad, 1 - group["b1"])
                v.lerp_(p.grad**2, 1 - group["b2"])
                p -= group["lr"] * m / (1 - group["b1"] ** t) / ((v / (1 - group["b2"] ** t)).sqrt() + group["tiny"])


def test_hyperparameters_of_other_names_are_known_by_their_defaults():
    assert check(Tiny, "AdamW").verdict == "matches the builtin"


TRIANGLES = """
def causal_mask(size):
    return torch.{}(torch.ones(size, size))


def attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask {}, -math.inf)
    return scores.softmax(-1) @ value


def decode(query, key, value):
    return attention(query, key, value, {})
"""


@pytest.mark.parametrize(
    "triangle, read, made, ids",
    [
        ("triu", "== 0", "causal_mask(len(query))", ["A5"]),
        ("triu", "== 1", "causal_mask(len(query))", ["A6"]),
        ("triu", "== 0", "causal_mask(len(query)) == 0", ["A6"]),
        ("tril", "== 0", "causal_mask(len(query))", []),
    ],
)
def test_a_triangle_with_its_diagonal_means_what_its_file_blocks(triangle, read, made, ids, tmp_path):
    result = check_text(TRIANGLES.format(triangle, read, made), tmp_path)["causal_mask"]
    assert [m.id for m in result.mistakes] == ids
