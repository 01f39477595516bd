"""Ways to write right code that the corpus' styles do not show: each is recognised, and raises no alarm."""

from pathlib import Path

import pytest

from reference_tests.kit.learners.checked import check_here, check_text, reported, written

pytestmark = pytest.mark.long

RIGHT = ("matches the builtin", "matches the paper, not the builtin", "harmless deviation")

ONLY_THE_LAST = """
class Block(nn.Module):
    def __init__(self, width, n_head):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, n_head, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        T = x.shape[1]
        y, blocked = self.ln1(x), torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        x = x + self.attn(y, y, y, attn_mask=blocked, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_embd, n_head, n_layer):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList([Block(n_embd, n_head) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.tok.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1]]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""
PASSED_IN = """
class MultiHeadedAttention(nn.Module):
    def __init__(self, model_dimension, number_of_heads, log_attention_weights):
        super().__init__()
        self.h, self.log_attention_weights = number_of_heads, log_attention_weights
        self.nets = nn.ModuleList([nn.Linear(model_dimension, model_dimension) for _ in range(3)])
        self.merge = nn.Linear(model_dimension, model_dimension)

    def forward(self, query, key, value, mask):
        q, k, v = (net(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
                   for net, x in zip(self.nets, (query, key, value)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        if self.log_attention_weights:
            self.weights = weights
        return self.merge((weights @ v).transpose(1, 2).flatten(2))


class FeedForwardNet(nn.Module):
    def __init__(self, model_dimension, width_mult=4):
        super().__init__()
        self.one = nn.Linear(model_dimension, width_mult * model_dimension)
        self.two = nn.Linear(width_mult * model_dimension, model_dimension)

    def forward(self, x):
        return self.two(self.one(x).relu())


class EncoderLayer(nn.Module):
    def __init__(self, model_dimension, attention, tokenwise):
        super().__init__()
        self.attention, self.tokenwise = copy.deepcopy(attention), copy.deepcopy(tokenwise)
        self.norm1, self.norm2 = nn.LayerNorm(model_dimension), nn.LayerNorm(model_dimension)

    def forward(self, x, src_mask):
        x = self.norm1(x + self.attention(x, x, x, src_mask))
        return self.norm2(x + self.tokenwise(x))
"""
SEVERAL_NORMS = """
class Decoder(nn.Module):
    def __init__(self, vocab_size, word_vec_dim, d_inner, n_head, n_layers, n_position=50):
        super().__init__()
        self.word_emb = nn.Embedding(vocab_size, word_vec_dim)
        self.position_emb = nn.Embedding(n_position, word_vec_dim)
        self.layer_stack = nn.ModuleList(
            nn.TransformerDecoderLayer(word_vec_dim, n_head, d_inner, 0.0, batch_first=True) for _ in range(n_layers)
        )
        self.layer_norm = nn.LayerNorm(word_vec_dim)

    def forward(self, trg_seq, trg_mask, enc_output, src_mask):
        x = self.word_emb(trg_seq) + self.position_emb(torch.arange(trg_seq.shape[1]))
        x = self.layer_norm(x)
        for layer in self.layer_stack:
            T = x.shape[1]
            h = layer.self_attn.num_heads
            own = ~trg_mask.expand(len(x), T, T).repeat_interleave(h, 0)
            source = ~src_mask.expand(len(x), T, enc_output.shape[1]).repeat_interleave(h, 0)
            x = layer(x, enc_output, own, source)
        return x
"""
NOTHING_BUT_NAN = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.out = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        return self.out(q) / 0.0 - self.out(q) / 0.0
"""


PASSED_ON = """
class EncoderBlock(nn.Module):
    def __init__(self, input_dim, num_heads, dim_feedforward):
        super().__init__()
        self.attn = nn.MultiheadAttention(input_dim, num_heads, batch_first=True)
        widths = (input_dim, dim_feedforward)
        self.net = nn.Sequential(nn.Linear(*widths), nn.ReLU(), nn.Linear(*reversed(widths)))
        self.norm1, self.norm2 = nn.LayerNorm(input_dim), nn.LayerNorm(input_dim)

    def forward(self, x):
        x = self.norm1(x + self.attn(x, x, x)[0])
        return self.norm2(x + self.net(x))


class TransformerEncoder(nn.Module):
    def __init__(self, num_layers, **block_args):
        super().__init__()
        self.layers = nn.ModuleList(EncoderBlock(**block_args) for _ in range(num_layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
WITH_LIGHTNING = """
import package_that_is_not_there as pl


class FeedForward(pl.LightningModule):
    def __init__(self, model_dim, hidden_dim, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.inner = nn.Linear(self.hparams.model_dim, self.hparams.hidden_dim)
        self.outer = nn.Linear(self.hparams.hidden_dim, self.hparams.model_dim)

    def forward(self, x):
        return self.outer(self.inner(x).relu())
"""
NEARLY_NAMED = """
class FeedFoward(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def estimate_loss():
    return {split: model.evaluate(split) for split in ("train", "val")}


class SegmentEmbedding(nn.Embedding):
    def __init__(self, embed_size):
        super().__init__(3, embed_size, padding_idx=0)
"""


def alarms(results):
    return {name: (r.verdict, r.problem) for name, r in results.items() if r.verdict not in RIGHT}


def test_a_language_model_that_returns_all_logits_only_with_targets(tmp_path):
    results = check_text(ONLY_THE_LAST, tmp_path)
    assert alarms(results) == {}
    assert results["GPT"].kind == "DecoderOnly"


def test_parts_whose_parameters_names_say_little_and_flags_that_name_parts(tmp_path):
    results = check_text(PASSED_IN, tmp_path)
    assert alarms(results) == {}
    assert results["EncoderLayer"].kind == "EncoderLayer"


def test_options_that_a_stack_passes_on_to_its_layers(tmp_path):
    results = check_text(PASSED_ON, tmp_path)
    assert alarms(results) == {}
    assert results["TransformerEncoder"].kind == "Encoder"


def test_no_mistake_is_told_from_outputs_that_are_nan(tmp_path):
    result = check_text(NOTHING_BUT_NAN, tmp_path)["MultiHeadAttention"]
    assert (result.verdict, result.mistakes) == ("unknown mismatch", [])


def test_attention_with_the_residual_sum_and_the_norm_inside_and_layers_of_it():
    results = check_here(Path(__file__).parent / "learners" / "correct" / "residual_inside.py")
    classes = {name: result for name, result in results.items() if name[0].isupper()}
    assert alarms(classes) == {}
    assert classes["MultiHeadAttention"].design == "residual and norm inside"
    assert "A1" not in [mistake.id for mistake in classes["ScaledDotProductAttention"].mistakes]


def test_a_norm_made_after_the_layers_that_the_embeddings_go_through(tmp_path):
    result = check_text(SEVERAL_NORMS, tmp_path)["Decoder"]
    assert (result.kind, result.verdict in RIGHT) == ("TokenDecoder", True)
    assert "normalized embeddings" in result.design


TOO_LARGE = """
class GPT2Torso(nn.Module):
    def __init__(self, model_type="gpt2"):
        super().__init__()
        self.token_embed = nn.Embedding(50257, 768)
        self.position_embed = nn.Embedding(1024, 768)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(768, 12, batch_first=True) for _ in range(12)])
        self.head = nn.Linear(768, 50257, bias=False)

    def forward(self, ids):
        x = self.token_embed(ids) + self.position_embed.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""


def test_a_misspelt_name_is_understood_what_only_reminds_of_one_is_no_crash_and_lightning_may_be_missing(tmp_path):
    report = reported(written(NEARLY_NAMED + WITH_LIGHTNING + TOO_LARGE, tmp_path))
    assert [(result.name, result.verdict) for result in report.results] == [
        ("FeedFoward", "matches the builtin"),
        ("FeedForward", "matches the builtin"),
        ("GPT2Torso", "could not be built"),
    ]
    assert "more than 30 million parameters" in report.results[-1].problem
    assert sorted(report.ignored) == [
        "SegmentEmbedding (no known part does that with (input))", "estimate_loss (it takes nothing)",
    ]  # fmt: skip


POSITIONS_GIVEN = """
class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, pos_enc):
        super().__init__()
        self.embedding, self.pos_enc = nn.Embedding(vocab_size, d_model), pos_enc

    def forward(self, x):
        return self.embedding(x) + self.pos_enc[: x.shape[1], :]
"""


def test_a_table_of_positions_that_is_given_ready_made(tmp_path):
    result = check_text(POSITIONS_GIVEN, tmp_path)["Embedding"]
    assert (result.verdict, "P5" in [mistake.id for mistake in result.mistakes]) == ("harmless deviation", False)


ONE_VOCABULARY = """
class Transformer(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.source_embedding, self.target_embedding = (nn.Embedding(vocab_size, d_model) for _ in range(2))
        options = {"dropout": 0.0, "batch_first": True}
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, num_heads, d_ff, **options) for _ in range(num_layers))
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(d_model, num_heads, d_ff, **options) for _ in range(num_layers))
        self.head, self.width = nn.Linear(d_model, vocab_size), d_model

    def positions(self, x):
        exponents = torch.arange(0, self.width, 2, device=x.device) / self.width
        angles = torch.arange(x.shape[1], device=x.device)[:, None] / 10000**exponents
        return x * math.sqrt(self.width) + torch.stack((angles.sin(), angles.cos()), -1).flatten(1)

    def forward(self, source, target):
        from_source, later = source == 0, torch.ones(2 * target.shape[1:], device=target.device).triu(1).bool()
        x, y = self.positions(self.source_embedding(source)), self.positions(self.target_embedding(target))
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=from_source)
        for layer in self.decoder:
            y = layer(y, x, later, None, target == 0, from_source)
        return self.head(y)
"""


def test_one_vocabulary_for_both_languages(tmp_path):
    assert alarms(check_text(ONE_VOCABULARY, tmp_path)) == {}


def test_one_padding_for_both_languages_and_a_target_that_is_cut(tmp_path):
    text = ONE_VOCABULARY.replace("d_ff):", "d_ff, pad_idx):").replace("== 0", "== self.pad")
    text = text.replace("self.width = ", "self.width, self.pad = ").replace(", d_model\n", ", d_model, pad_idx\n")
    text = text.replace("        from_source, later", "        target = target[:, :-1]\n        from_source, later")
    results = check_text(text, tmp_path)
    assert alarms(results) == {}
    assert "It leaves out the last word of what it is given, so it was given one more." in results["Transformer"].notes


MASK_NEEDED = """
class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True) for _ in range(num_layers))

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask.logical_not())
        return x
"""


def test_what_stops_without_a_mask_is_given_one(tmp_path):
    result = check_text(MASK_NEEDED, tmp_path)["Encoder"]
    assert result.ids == ["B26"]  # mask=None, with which it stops
    assert "It stops without a mask, so it was given one that hides nothing." in result.notes


SEVEN_ARGUMENTS = """
class Seq2SeqTransformer(nn.Module):
    def __init__(self, num_layers, d_model, nhead, src_vocab_size, tgt_vocab_size, dim_feedforward):
        super().__init__()
        self.transformer = nn.Transformer(d_model, nhead, num_layers, num_layers, dim_feedforward, 0.0)
        self.generator = nn.Linear(d_model, tgt_vocab_size)
        self.src_emb, self.tgt_emb = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        self.src_pos, self.tgt_pos = nn.Embedding(50, d_model), nn.Embedding(50, d_model)

    def forward(self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, memory_key_padding_mask):
        x = self.src_emb(src) + self.src_pos(torch.arange(len(src)))[:, None]
        y = self.tgt_emb(trg) + self.tgt_pos(torch.arange(len(trg)))[:, None]
        return self.generator(self.transformer(
            x, y, src_mask, tgt_mask, None, src_padding_mask, tgt_padding_mask, memory_key_padding_mask))
"""


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_masks_of_attention_and_of_padding_as_torch_takes_them(tmp_path):
    assert alarms(check_text(SEVEN_ARGUMENTS, tmp_path)) == {}


OF_ONE_LENGTH = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).unflatten(2, (self.h, 3 * self.d_k)).transpose(1, 2).chunk(3, -1)
        return self.out(attend(q, k, v, mask).transpose(1, 2).flatten(2))


def attend(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return (scores.transpose(0, 1) + mask).transpose(0, 1).softmax(-1) @ v


class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.q, self.kv, self.out = (nn.Linear(d_model, n * d_model) for n in (1, 2, 1))

    def forward(self, x, y, mask):
        B, T, E = x.shape
        k, v = self.kv(x).view(B, T, self.h, 2 * self.d_k).transpose(1, 2).chunk(2, -1)
        q = self.q(y).view(B, T, self.h, self.d_k).transpose(1, 2)
        return self.out(attend(q, k, v, mask).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.own, self.cross = SelfAttention(d_model, num_heads), CrossAttention(d_model, num_heads)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, y, self_attention_mask, cross_attention_mask):
        y = self.norm1(y + self.own(y, self_attention_mask))
        y = self.norm2(y + self.cross(x, y, cross_attention_mask))
        return self.norm3(y + self.ffn(y))


class Layers(nn.Sequential):
    def forward(self, *inputs):
        x, y, *masks = inputs
        for layer in self:
            y = layer(x, y, *masks)
        return y


class Decoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = Layers(*(DecoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)))

    def forward(self, x, y, self_attention_mask, cross_attention_mask):
        return self.layers(x, y, self_attention_mask, cross_attention_mask)
"""


def test_source_and_target_of_one_length_the_source_first(tmp_path):
    results = check_text(OF_ONE_LENGTH, tmp_path)
    assert alarms({name: result for name, result in results.items() if name != "Layers"}) == {}
    assert [results[name].kind for name in ("DecoderLayer", "Decoder")] == ["DecoderLayer", "Decoder"]


LOSSES = f"""
{ONLY_THE_LAST}

class LanguageModel(GPT):
    def forward(self, idx, targets):
        logits = super().forward(idx, idx)[0]
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class LossModel(GPT):
    def forward(self, x):
        hidden = self.tok(x[:, :-1]) + self.pos(torch.arange(x.shape[1] - 1))
        for block in self.blocks:
            hidden = block(hidden)
        return F.cross_entropy(self.lm_head(self.ln_f(hidden)).flatten(0, 1), x[:, 1:].flatten())
"""


def test_language_models_that_must_be_given_targets_or_return_the_loss_alone(tmp_path):
    results = check_text(LOSSES, tmp_path)
    assert alarms(results) == {}
    loss = "It returns its loss alone: the scores inside are compared, and the loss is not checked."
    assert [loss in results[name].limits for name in ("LanguageModel", "LossModel")] == [False, True]


LIST_OF_CACHES = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.qkv, self.o = num_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, use_cache=False, kv_cache=None):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if use_cache:
            if kv_cache is not None:
                k, v = torch.cat([kv_cache[0], k], 2), torch.cat([kv_cache[1], v], 2)
            kv_cache = (k, v)
        T, S = q.shape[2], k.shape[2]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~torch.ones(T, S).tril(S - T).bool(), float("-inf")).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2)), kv_cache


class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(d_model), nn.LayerNorm(d_model), Attention(d_model, num_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, use_cache=False, kv_cache=None):
        y, kv_cache = self.attn(self.norm1(x), use_cache, kv_cache)
        return x + y + self.ff(self.norm2(x + y)), kv_cache


class GPT(nn.Module):
    def __init__(self, vocab_size, context_length, d_model, num_heads, num_layers):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, d_model), nn.Embedding(context_length, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads) for _ in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, inputs, use_cache=False, kv_caches=None):
        begin = kv_caches[0][0].shape[-2] if use_cache and kv_caches[0] is not None else 0
        x = self.tok(inputs) + self.pos(torch.arange(begin, begin + inputs.shape[1]))
        for i, block in enumerate(self.blocks):
            x, kv_caches[i] = block(x, use_cache, kv_caches[i])
        return self.head(self.norm(x)), kv_caches
"""


def test_a_list_with_the_cache_of_every_layer(tmp_path):
    results = check_text(LIST_OF_CACHES, tmp_path)
    assert alarms(results) == {}
    assert "With its cache it gives, token by token, what one call gives." in results["GPT"].notes


WITHOUT_INPUT = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_sequence_length):
        super().__init__()
        self.d_model, self.length = d_model, max_sequence_length

    def forward(self):
        angles = torch.arange(self.length)[:, None] / 10000 ** (torch.arange(0, self.d_model, 2) / self.d_model)
        return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)
"""


def test_positions_that_are_given_nothing(tmp_path):
    assert alarms(check_text(WITHOUT_INPUT, tmp_path)) == {}


SCALED = """
import torch
from torch import nn

class ScaledDotProductAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.scale = config.scale

    def forward(self, q, k, v, mask):
        scores = q @ k.transpose(-1, -2) / self.scale
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize("operation", ["/ self", "* self"])
def test_a_scale_of_a_config_that_is_not_there_is_the_right_one(tmp_path, operation):
    file = tmp_path / "scaled.py"
    file.write_text(SCALED.replace("/ self", operation), encoding="utf-8")
    assert check_here(file, ["ScaledDotProductAttention"])["ScaledDotProductAttention"].verdict == "matches the builtin"


WIDTHS_BY_OTHER_NAMES = """
class FeedForward(nn.Module):
    def __init__(self, num_embeddings):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(num_embeddings, 4 * num_embeddings), nn.ReLU(), nn.Linear(4 * num_embeddings, num_embeddings))

    def forward(self, x):
        return self.net(x)

class PostNormBlock(nn.Module):
    def __init__(self, d_model, ffn_dim):
        super().__init__()
        self.ffn = nn.Sequential(nn.Linear(d_model, ffn_dim), nn.GELU(), nn.Linear(ffn_dim, d_model))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(x + self.ffn(x))

class NoPositionalEncoding(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x)

def cmd_generate(args):
    print(args.prompt)
"""


def test_a_width_called_num_embeddings_a_block_without_attention_and_what_adds_no_positions(tmp_path):
    results = check_text(WIDTHS_BY_OTHER_NAMES, tmp_path)
    assert alarms(results) == {}
    assert {name: result.kind for name, result in results.items()} == {
        "FeedForward": "FeedForward",
        "PostNormBlock": "FeedForward",
    }


LAYER_OF_ONE_LENGTH = """
class Attention(nn.Module):
    def __init__(self, seq_len, input_dim, num_heads, causal):
        super().__init__()
        self.h, self.d_k = num_heads, input_dim // num_heads
        self.q, self.k, self.v = (nn.Linear(input_dim, input_dim) for _ in range(3))
        self.out = nn.Linear(input_dim, input_dim)
        self.register_buffer("future", torch.triu(torch.ones(seq_len, seq_len), 1).bool() if causal else None)

    def forward(self, q, k, v, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
                   for f, x in ((self.q, q), (self.k, k), (self.v, v)))
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if self.future is not None:
            scores = scores.masked_fill(self.future, float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

class Decoder(nn.Module):
    def __init__(self, seq_len, input_dim, num_heads, feature_dim):
        super().__init__()
        self.attn = Attention(seq_len, input_dim, num_heads, True)
        self.cross = Attention(seq_len, input_dim, num_heads, False)
        self.change = nn.Sequential(nn.Linear(input_dim, feature_dim), nn.ReLU(), nn.Linear(feature_dim, input_dim))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(input_dim) for _ in range(3))

    def forward(self, x, enc_output, src_mask=None, tgt_mask=None):
        x = self.norm1(self.attn(x, x, x, tgt_mask) + x)
        x = self.norm2(self.cross(x, enc_output, enc_output, src_mask) + x)
        return self.norm3(self.change(x) + x)
"""


def test_a_layer_that_is_called_decoder_works_with_one_length_and_has_two_widths(tmp_path):
    result = check_text(LAYER_OF_ONE_LENGTH, tmp_path)["Decoder"]
    assert result.kind == "DecoderLayer"
    assert result.verdict in RIGHT
    assert any("longest length alone" in limit for limit in result.limits)


NOT_ASKED_FOR = """
class ScaledDotProductAttention(nn.Module):
    def __init__(self, scale: float | None = None):
        super().__init__()
        self.scale = scale

    def forward(self, query, key, value):
        scale = query.shape[-1] ** 0.5 if self.scale is None else self.scale
        return torch.softmax(query @ key.mT / scale, dim=-1) @ value


class Config:
    n_embd: int = 12
    n_head: int = 3
    bias: bool = True
    qkv_bias: bool = True


class MultiHeadAttention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.n_head = config.n_head
        self.q, self.k, self.v = (nn.Linear(config.n_embd, config.n_embd, bias=config.qkv_bias) for _ in range(3))
        self.out = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        attended = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v
        return self.out(attended.transpose(1, 2).flatten(2))


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.k_cache = self.v_cache = None

    def turned(self, x, position_ids):
        position_ids = torch.arange(x.shape[-2]) if position_ids is None else position_ids
        angles = position_ids[:, None] / 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
        even, odd, sin, cos = x[..., 0::2], x[..., 1::2], angles.sin(), angles.cos()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, x, use_cache=False, query_position_ids=None, key_position_ids=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.turned(q, query_position_ids), self.turned(k, key_position_ids)
        if use_cache:
            if self.k_cache is not None:
                k, v = torch.cat([self.k_cache, k], 2), torch.cat([self.v_cache, v], 2)
            self.k_cache, self.v_cache = k, v
        later = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1 + k.shape[2] - q.shape[2])
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def test_what_is_optional_stays_as_it_is_and_switches_and_positions_have_their_own_names(tmp_path):
    results = check_text(NOT_ASKED_FOR, tmp_path)
    named = {(name, mistake.id) for name, result in results.items() for mistake in result.mistakes}
    assert alarms(results) == {}
    assert not {id for _, id in named} & {"A1", "A15", "P7", "K1"}
    assert "With its cache it gives, token by token, what one call gives." in results["CausalSelfAttention"].notes
