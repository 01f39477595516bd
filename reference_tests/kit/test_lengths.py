"""Lengths of sentences in place of masks, a table of positions that is given, keys and values in one projection."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

MODEL = """
class MultiHeadAttention(nn.Module):
    def __init__(self, dim_model, num_heads, dim_queries, dim_values, dropout, in_decoder=False):
        super().__init__()
        self.h, self.dim_queries, self.dim_values, self.in_decoder = num_heads, dim_queries, dim_values, in_decoder
        self.proj_queries = nn.Linear(dim_model, num_heads * dim_queries)
        self.proj_key_values = nn.Linear(dim_model, num_heads * (dim_queries + dim_values))
        self.proj_out = nn.Linear(num_heads * dim_values, dim_model)
        self.norm, self.dropout = nn.LayerNorm(dim_model), nn.Dropout(dropout)

    def forward(self, query_sequences, key_value_sequences, key_value_sequence_lengths):
        residual, is_self = query_sequences, torch.equal(query_sequences, key_value_sequences)
        query_sequences = self.norm(query_sequences)
        key_value_sequences = self.norm(key_value_sequences) if is_self else key_value_sequences
        B, T, S = len(residual), residual.size(1), key_value_sequences.size(1)
        keys, values = self.proj_key_values(key_value_sequences).split(self.h * self.dim_queries, -1)
        queries = self.proj_queries(query_sequences).view(B, T, self.h, self.dim_queries).transpose(1, 2)
        keys = keys.reshape(B, S, self.h, self.dim_queries).transpose(1, 2)
        values = values.reshape(B, S, self.h, self.dim_values).transpose(1, 2)
        scores = queries @ keys.transpose(2, 3) / math.sqrt(self.dim_queries)
        real = torch.arange(S) < key_value_sequence_lengths{lengths}.view(B, 1, 1, 1)
        scores = scores.masked_fill(~real, -math.inf)
        if self.in_decoder and is_self:
            scores = scores.masked_fill(~torch.ones(T, T).tril().bool(), -math.inf)
        attended = (self.dropout(scores.softmax(-1)) @ values).transpose(1, 2).flatten(2)
        return self.dropout(self.proj_out(attended)) + residual


class PositionWiseFFN(nn.Module):
    def __init__(self, dim_model, dim_inner, dropout):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim_model, dim_inner), nn.Linear(dim_inner, dim_model)
        self.norm, self.dropout = nn.LayerNorm(dim_model), nn.Dropout(dropout)

    def forward(self, sequences):
        return sequences + self.dropout(self.fc2(self.dropout(torch.relu(self.fc1(self.norm(sequences))))))


class Decoder(nn.Module):
    def __init__(self, vocab_size, positional_encoding, dim_model, num_heads, dim_queries, dim_values, dim_inner,
                 num_layers, dropout):
        super().__init__()
        self.positional_encoding, self.dim_model = positional_encoding, dim_model
        self.embedding = nn.Embedding(vocab_size, dim_model)
        sizes = dim_model, num_heads, dim_queries, dim_values, dropout
        self.layers = nn.ModuleList(
            nn.ModuleList([MultiHeadAttention(*sizes, in_decoder=True), MultiHeadAttention(*sizes, in_decoder=True),
                           PositionWiseFFN(dim_model, dim_inner, dropout)]) for _ in range(num_layers))
        self.dropout, self.norm = nn.Dropout(dropout), nn.LayerNorm(dim_model)
        self.fc = nn.Linear(dim_model, vocab_size)

    def forward(self, decoder_sequences, decoder_sequence_lengths, encoder_sequences, encoder_sequence_lengths):
        length = decoder_sequences.size(1)
        x = self.embedding(decoder_sequences) * math.sqrt(self.dim_model)
        x = self.dropout(x + self.positional_encoding[:, :length, :])
        for own, cross, network in self.layers:
            x = own(x, x, decoder_sequence_lengths)
            x = network(cross(x, encoder_sequences, encoder_sequence_lengths))
        return self.fc(self.norm(x))
"""


def result(name, lengths, folder):
    return check_text(MODEL.replace("{lengths}", lengths), folder, None if name == "Decoder" else (name,))[name]


def test_lengths_are_masks_and_a_decoder_of_them_is_right(tmp_path):
    decoder = result("Decoder", "", tmp_path)
    assert (decoder.kind, decoder.verdict) == ("TokenDecoder", "matches the builtin")
    assert any("encoder_sequence_lengths was given as lengths" in note for note in decoder.notes)


@pytest.mark.parametrize("lengths, is_right", [("", True), (".clamp(min=99)", False)])
def test_attention_that_does_not_heed_lengths_is_not_called_right(lengths, is_right, tmp_path):
    attention = result("MultiHeadAttention", lengths, tmp_path)
    assert (attention.verdict == "matches the builtin") == is_right, attention


CORE = """
class ScaledDotProduct(nn.Module):
    def forward(self, query, key, value, mask=None):
        B, h, T, d = query.shape
        scores = query.reshape(B * h, T, d) @ key.reshape(B * h, T, d).transpose(1, 2) / math.sqrt(d)
        if mask is not None:
            scores = scores.view(B, h, T, T).masked_fill(mask == 0, -math.inf).view(B * h, T, T)
        return (scores.softmax(-1) @ value.reshape(B * h, T, d)).view(B, h, T, d)
"""
ASSERTS = """
class Attention(nn.Module):
    def __init__(self, d_k, h):
        super().__init__()
        self.d_k, self.h = d_k, h

    def forward(self, Q, K, V):
        assert Q.shape == K.shape == V.shape == (Q.shape[0], self.h, Q.shape[2], self.d_k)
        return F.softmax(Q @ K.transpose(3, 2) / math.sqrt(self.d_k), dim=3) @ V
"""


@pytest.mark.parametrize("text, old, new, verdict, ids", [
    (CORE, "", "", "harmless deviation", ["A35"]),
    (CORE, "math.sqrt(d)", "d", "mistake", ["A1"]),
    (CORE, "-math.inf", "0.0", "mistake", ["A4"]),
    (CORE, "-math.inf", "0.3", "crashed", []),
    (ASSERTS, "", "", "matches the builtin", []),
    (ASSERTS, "dim=3", "dim=2", "mistake", ["A2"]),
])  # fmt: skip
def test_a_core_that_needs_as_many_keys_as_queries_is_given_them(text, old, new, verdict, ids, tmp_path):
    (found,) = check_text(text.replace(old, new) if old else text, tmp_path).values()
    assert found.verdict == verdict and [m.id for m in found.mistakes if m.id != "A11"][: len(ids) or None] == ids


EVEN = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.to_qkv, self.to_out = num_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        B, T, E = x.shape
        q, k, v = self.to_qkv(x).view(B, T, self.h, -1).transpose(1, 2).chunk(3, dim=-1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(E // self.h)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        return self.to_out((weights @ v)MERGED)


class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.to_q, self.to_kv = num_heads, nn.Linear(d_model, d_model), nn.Linear(d_model, 2 * d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, y):
        B, T, E = x.shape
        k, v = self.to_kv(x).view(B, T, self.h, -1).transpose(1, 2).chunk(2, dim=-1)
        q = self.to_q(y).view(B, T, self.h, -1).transpose(1, 2)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(E // self.h)).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).reshape(B, T, E))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.own, self.cross = SelfAttention(d_model, num_heads), CrossAttention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, y, decoder_mask):
        y = self.norm1(y + self.own(y, decoder_mask))
        y = self.norm2(y + self.cross(x, y))
        return self.norm3(y + self.network(y))
"""


@pytest.mark.parametrize("merged, verdict, inherited", [
    (".transpose(1, 2).reshape(B, T, E)", "harmless deviation", {"A35"}),
    (".reshape(B, T, E)", "mistake", {"A35", "A23"}),
])  # fmt: skip
def test_a_decoder_without_a_mask_of_its_source_may_need_one_length_of_both(merged, verdict, inherited, tmp_path):
    layer = check_text(EVEN.replace("MERGED", merged), tmp_path)["DecoderLayer"]
    assert (layer.verdict, {*layer.inherited}, layer.mistakes) == (verdict, inherited, [])


NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, hidden):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, hidden), nn.Linear(hidden, d_model)

    def forward(self, x):
        return self.linear2(torch.relu(self.linear1(x)))


"""


@pytest.mark.parametrize("merged, verdict, inherited", [
    (".transpose(1, 2).reshape(B, T, E)", "harmless deviation", {"A35"}),
    (".reshape(B, T, E)", "mistake", {"A35", "A23"}),
])  # fmt: skip
def test_that_it_needs_one_length_is_harmless_beside_a_network_that_is_told_its_width_as_hidden(
    merged, verdict, inherited, tmp_path
):
    written = "nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))"
    text = EVEN.replace(written, "FeedForward(d_model, hidden=ffn_hidden)").replace("d_ff", "ffn_hidden")
    text = text.replace("MERGED", merged).replace("\nclass DecoderLayer", f"{NETWORK}class DecoderLayer")
    results = check_text(text, tmp_path)
    layer, cross = results["DecoderLayer"], results["CrossAttention"]
    assert (layer.verdict, {*layer.inherited}, layer.mistakes) == (verdict, inherited, [])
    (found,) = (m for m in cross.mistakes if m.id == "A35")
    assert found.shown.strip().startswith("q = self.to_q(y).view(B, T")


OF_LONGEST = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=0):
        super().__init__()
        self.h, self.max_len = num_heads, max_len
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
                   for w, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.max_len:
            scores = scores.masked_fill(torch.ones(self.max_len, self.max_len).tril() == 0, -math.inf)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, max_len):
        super().__init__()
        self.self_attn, self.cross_attn = Attention(d_model, num_heads, max_len), Attention(d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory):
        x = self.norm1(x + self.self_attn(x, x, x))
        x = self.norm2(x + self.cross_attn(x, memory, memory))
        return self.norm3(x + self.ffn(x))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, None])

    def forward(self, x):
        return x + READ


class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.encoder = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff, max_len) for _ in range(num_layers)])
        self.places = PositionalEncoding(d_model, max_len)
        self.project = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        memory, x = self.places(self.src_embed(src)), self.places(self.tgt_embed(tgt))
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            x = layer(x, memory)
        return self.project(x)
"""


@pytest.mark.parametrize("read, ids", [("self.pe[: x.shape[1], 0]", ["A24"]), ("self.pe[: x.shape[0]]", ["P4", "A24"])])
def test_a_model_of_the_longest_length_alone_that_hides_no_padding(read, ids, tmp_path):
    model = check_text(OF_LONGEST.replace("READ", read), tmp_path)["Transformer"]
    assert {*model.severe, *model.inherited} - {"B32"} == {*ids} and model.verdict == "mistake", model


NORM_OF_PLACES = """
class LayerNorm(nn.Module):
    def __init__(self, SIZES, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(SIZES)), nn.Parameter(torch.zeros(SIZES)), eps

    def forward(self, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / torch.sqrt(variance + self.eps) + self.beta
"""


@pytest.mark.parametrize("sizes, verdict, ids", [
    ("seq_len, d_model", "harmless deviation", ["LN4"]), ("d_model", "matches the builtin", []),
])  # fmt: skip
def test_a_norm_with_a_scale_for_every_place_works_with_one_length_alone(sizes, verdict, ids, tmp_path):
    result = check_text(NORM_OF_PLACES.replace("SIZES", sizes), tmp_path)["LayerNorm"]
    assert (result.verdict, result.ids) == (verdict, ids)
    assert all("self.gamma and self.beta" in found.evidence for found in result.mistakes if found.id == "LN4")


HANDED_ON = """
class Tagger(nn.Module):
    def __init__(self, vocab_size, width, heads, inner, depth):
        super().__init__()
        self.words = nn.Embedding(vocab_size, width)
        layer = nn.TransformerEncoderLayer(width, heads, inner, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.scores = nn.Linear(width, vocab_size)

    def forward(self, ids, dec_lengths):
        later = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool, device=ids.device).triu(1)
        return self.scores(self.layers(self.words(ids), mask=later)), dec_lengths
"""


@pytest.mark.parametrize("diagonal, verdict, ids", [(1, "harmless deviation", ["E2"]), (2, "mistake", ["A6", "E2"])])
def test_lengths_that_are_only_returned_are_no_mask(diagonal, verdict, ids, tmp_path):
    """Beside the scores, for whoever computes the loss."""
    result = check_text(HANDED_ON.replace("triu(1)", f"triu({diagonal})"), tmp_path)["Tagger"]
    assert (result.verdict, result.ids) == (verdict, ids), result
