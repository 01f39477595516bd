"""A whole that is handed its parts, one of which stops by itself: both are named; without that, all of it is right."""

import pytest

from reference_tests.kit.learners.checked import check_here, check_text
from reference_tests.kit.learners.corpus import STYLES
from reference_tests.kit.test_handed_parts import ATTENTION
from scratch_transformer.kit.report.finding import FINE

PARTS = """
class TokenEmbedding(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.d_model, self.table = d_model, nn.Embedding(vocab_size, d_model)

    def forward(self, x):
        return self.table(x) * math.sqrt(self.d_model)


class Residual(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderBlock(nn.Module):
    def __init__(self, d_model, self_attn: MultiHeadAttention, feed_forward: FeedForward, dropout):
        super().__init__()
        self.self_attn, self.feed_forward = self_attn, feed_forward
        self.residual = nn.ModuleList([Residual(d_model, dropout) for _ in range(2)])

    def forward(self, x, e_mask):
        x = self.residual[0](x, lambda x: self.self_attn(x, x, x, e_mask))
        return self.residual[1](x, self.feed_forward)


class DecoderBlock(nn.Module):
    def __init__(self, d_model, self_attn: MultiHeadAttention, cross_attn: MultiHeadAttention,
                 feed_forward: FeedForward, dropout):
        super().__init__()
        self.self_attn, self.cross_attn, self.feed_forward = self_attn, cross_attn, feed_forward
        self.residual = nn.ModuleList([Residual(d_model, dropout) for _ in range(3)])

    def forward(self, x, memory, e_mask, d_mask):
        x = self.residual[0](x, lambda x: self.self_attn(x, x, x, d_mask))
        x = self.residual[1](x, {}self.cross_attn(x, memory, memory, e_mask))
        return self.residual[2](x, self.feed_forward)


class Encoder(nn.Module):
    def __init__(self, d_model, layers: nn.ModuleList):
        super().__init__()
        self.layers, self.norm = layers, nn.LayerNorm(d_model)

    def forward(self, x, e_mask):
        for layer in self.layers:
            x = layer(x, e_mask)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, d_model, layers: nn.ModuleList):
        super().__init__()
        self.layers, self.norm = layers, nn.LayerNorm(d_model)

    def forward(self, x, memory, e_mask, d_mask):
        for layer in self.layers:
            x = layer(x, memory, e_mask, d_mask)
        return self.norm(x)


class Transformer(nn.Module):
    def __init__(self, encoder: Encoder, decoder: Decoder, e_in_embedding: TokenEmbedding,
                 d_in_embedding: TokenEmbedding, projection: nn.Linear):
        super().__init__()
        self.encoder, self.decoder, self.projection = encoder, decoder, projection
        self.e_in_embedding, self.d_in_embedding = e_in_embedding, d_in_embedding

    def encode(self, src, e_mask):
        return self.encoder(self.e_in_embedding(src), e_mask)

    def decode(self, memory, tgt, e_mask, d_mask):
        return self.decoder(self.d_in_embedding(tgt), memory, e_mask, d_mask)

    def project(self, x):
        return self.projection(x)


def build_transformer(src_vocab_size, tgt_vocab_size, d_model=8, N=2, h=2, dropout=0.1, d_ff=16):
    def attention():
        return MultiHeadAttention(d_model, h, dropout)

    def network():
        return FeedForward(d_model, d_ff, dropout)

    encoder = Encoder(d_model, nn.ModuleList(
        [EncoderBlock(d_model, attention(), network(), dropout) for _ in range(N)]))
    decoder = Decoder(d_model, nn.ModuleList(
        [DecoderBlock(d_model, attention(), attention(), network(), dropout) for _ in range(N)]))
    tables = TokenEmbedding(d_model, src_vocab_size), TokenEmbedding(d_model, tgt_vocab_size)
    model = Transformer(encoder, decoder, *tables,
                        nn.Linear(d_model, tgt_vocab_size))
    return model, torch.optim.Adam(model.parameters())
"""


def results(sublayer, folder, names=None):
    return check_text(ATTENTION + PARTS.replace("{}", sublayer), folder, names)


@pytest.mark.long
def test_embeddings_told_by_annotation_and_a_model_beside_its_optimizer_are_right(tmp_path):
    found = results("lambda x: ", tmp_path)
    wholes = ("DecoderBlock", "Decoder", "Transformer", "build_transformer")
    assert {found[name].verdict for name in wholes} == {"matches the builtin"}


@pytest.mark.long
def test_a_tensor_where_a_function_is_asked_for_is_named_in_the_block_and_said_of_what_is_made_of_it(tmp_path):
    found = results("", tmp_path, ("MultiHeadAttention", "FeedForward", "Residual", "DecoderBlock", "Decoder"))
    assert [m.id for m in found["DecoderBlock"].mistakes] == ["B26"]
    assert "sublayer" in found["DecoderBlock"].mistakes[0].evidence
    assert any("DecoderBlock cannot be used" in limit for limit in found["Decoder"].limits)


@pytest.mark.long
def test_a_whole_of_layers_in_which_a_part_stops_is_said_to_have_that_part(tmp_path):
    """Its own mask means the opposite of what the reference's attention, put in that part's place, was given."""
    text, line = STYLES["source_ids"].read_text(), "        self.W_V = nn.Linear(cfg.hidden_dim, cfg.hidden_dim)\n"
    assert line in text
    path = tmp_path / "learner.py"
    path.write_text(text.replace(line, ""))
    results = check_here(path, {"MultiHeadAttention", "EncoderLayer", "Encoder"})
    assert results["MultiHeadAttention"].ids == ["B26"]
    assert (results["Encoder"].verdict, results["Encoder"].inherited) == ("mistake", ["B26"])


HOLLOW = """
class Block(nn.Module):
    def __init__(self, d_model, num_heads, turn=None):
        super().__init__()
        self.turn, self.attention = turn, nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        q = self.turn.rotate(x)
        x = self.norm1(x + self.attention(q, q, x)[0])
        return self.norm2(x + self.down(torch.relu(self.up(x))))


class LanguageModel(nn.Module):
    def __init__(self, d_model, num_heads, num_layers, turn=None):
        super().__init__()
        self.layers = nn.ModuleList([Block(d_model, num_heads, turn) for _ in range(num_layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.long
def test_what_has_the_references_layers_and_embeddings_is_no_right_model(tmp_path):
    """Nothing of it would be its own. It is a stack of layers at most, in the place of which are the reference's."""
    result = check_text(HOLLOW, tmp_path)["LanguageModel"]
    assert result.verdict not in FINE or (result.kind, result.replaced) == ("Encoder", ["Block"])


PAIRS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        q, k, v = self.q(query), self.k(key), self.v(value)
        q, k, v = (heads.unflatten(-1, (self.h, -1)).transpose(1, 2) for heads in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = (scores if mask is None else scores.masked_fill(mask == 0, -math.inf)).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2)), weights


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        attended, weights = self.attention(query=x, key=x, value=x, mask=mask)
        x = self.norm1(x + attended)
        return self.norm2(x + self.ff(x)), weights


class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])

    def forward(self, inputs, mask=None):
        hidden = inputs
        for layer in self.layers:
            {} = layer(hidden, mask){}
        return hidden
"""


@pytest.mark.long
@pytest.mark.parametrize("kept, first, ids", [
    ("hidden", "", ["B26"]), ("hidden, weights", "", []), ("hidden", "[0]", []),
])  # fmt: skip
def test_layers_that_hand_on_their_weights_to_the_next_are_named_in_the_stack(kept, first, ids, tmp_path):
    result = check_text(PAIRS.format(kept, first), tmp_path)["Encoder"]
    assert [m.id for m in result.mistakes] == ids
    assert (result.verdict in FINE) == (not ids)
    assert all("layer returns a tuple" in m.evidence for m in result.mistakes)


MISNAMED = """

class TransformerModel(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)

    def forward(self, ids):
        return self.encoder(self.embedding({}))
"""


@pytest.mark.long
def test_what_stops_in_its_own_code_is_not_said_of_a_part_that_stops_too(tmp_path):
    result = check_text(PAIRS.format("hidden", "") + MISNAMED.format("idx"), tmp_path)["TransformerModel"]
    assert (result.verdict, [m.id for m in result.mistakes], result.inherited) == ("mistake", ["B26"], [])
    assert "idx" in result.mistakes[0].evidence


UNSCALED = """

class PositionEncoder(nn.Module):
    def __init__(self, d_model, max_len=80):
        super().__init__()
        self.d_model = d_model
        self.table = torch.zeros(max_len, d_model).with_a_batch(0)

    def forward(self, x):
        return x * math.sqrt(self.d_model) + self.table[:, :x.size(1)]


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), PositionEncoder(d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)

    def forward(self, ids, mask=None):
        return self.encoder(self.positions(self.embedding(ids)), mask)
"""


def test_a_lent_part_that_may_scale_is_no_reason_to_say_that_nothing_does(tmp_path):
    result = check_text(PAIRS.format("hidden, weights", "") + UNSCALED, tmp_path)["TransformerEncoder"]
    assert "PositionEncoder" in result.replaced and "E2" not in {m.id for m in result.mistakes}


TOLD_A_FACTOR = """
class FeedForward(nn.Module):
    def __init__(self, width, expansion_factor):
        super().__init__()
        self.inner = nn.Linear(width, width * expansion_factor)
        self.outer = nn.Linear(width * expansion_factor, width)

    def forward(self, x):
        return self.outer(self.inner(x.transpose(1, 2)).relu())


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, expansion_factor=4):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.network = FeedForward(width, expansion_factor)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = self.norm_1(x + self.attention(x, x, x)[0])
        return self.norm_2(x + self.network(x))
"""


def test_what_the_reference_lends_is_as_wide_as_the_factor_says_that_the_part_is_told(tmp_path):
    result = check_text(TOLD_A_FACTOR, tmp_path)["EncoderLayer"]
    assert result.replaced == ["FeedForward"] and not result.unexplained
    assert result.error is not None and result.error < 1e-9
