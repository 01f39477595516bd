"""What a class is taken for by its name and its methods, before anything is built."""

import pytest
from torch import nn
from torch.nn import functional

from reference_tests.kit.learners.checked import IMPORTS, LESS, check_text, checking_of, time_to_look
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import guess, likeness


def named(name, methods):
    return type(name, (nn.Module,), methods)


def of_ids(self, idx, targets=None):
    return self.blocks(self.token_embedding(idx))


def of_one_head(self, x):
    return functional.softmax(self.query(x) @ self.key(x).mT, dim=-1) @ self.value(x)


def of_scores(self, x):
    return self.linear(self.norm(x))


@pytest.mark.parametrize("name", ["TinyGPT", "MiniGPT2", "NanoGpt", "my_gpt", "TinyLM", "GPTv2", "MiniLLM"])
def test_a_short_name_for_a_language_model_may_have_a_word_before_it(name):
    assert guess.kinds_of(name, named(name, {"forward": of_ids}), KINDS)[0] in ("DecoderOnly", "LlamaModel")


@pytest.mark.parametrize("name", ["GatedFFN", "MoEMLP", "ExpertMLP"])
def test_so_may_one_for_a_network(name):
    assert guess.kinds_of(name, named(name, {"forward": of_scores}), KINDS)[0] in ("FeedForward", "SwiGLU")


def of_positions(self, x):
    return x + self.table[:, : x.shape[1]]


@pytest.mark.parametrize("name, is_one", [("PE", True), ("RoPE", False), ("Type", False)])
def test_two_letters_are_enough_for_positions(name, is_one):
    found = guess.kinds_of(name, named(name, {"forward": of_positions}), KINDS)
    assert (found[:1] == ("PositionalEncoding",)) == is_one


def test_a_head_that_attends_is_attention():
    assert guess.kinds_of("Head", named("Head", {"forward": of_one_head}), KINDS)[0] == "CausalSelfAttention"
    assert guess.kinds_of("Head", named("Head", {"forward": of_scores}), KINDS) == ()
    assert "CausalSelfAttention" not in guess.kinds_of("LMHead", named("LMHead", {"forward": of_scores}), KINDS)


@pytest.mark.parametrize("name", ["LanguageModelHead", "LanguageModelingHead", "MLMHead"])
def test_the_head_of_a_language_model_projects(name):
    assert guess.kinds_of(name, named(name, {"forward": of_scores}), KINDS)[0] == "Projection"


@pytest.mark.parametrize("name", ["PositionEncoder", "PosEncoder", "PositionalEncoder"])
def test_an_encoder_of_positions_is_no_encoder(name):
    assert guess.kinds_of(name, named(name, {"forward": of_scores}), KINDS)[0] == "PositionalEncoding"


def with_embedding(self, vocab_size, d_model):
    self.token_embedding = nn.Embedding(vocab_size, d_model)


def of_a_layer(self, d_model, num_heads, d_ff):
    self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
    self.attention, self.network = nn.MultiheadAttention(d_model, num_heads), nn.Linear(d_model, d_ff)


def of_vectors(self, x):
    return x + self.network(self.norm2(x + self.attention(self.norm1(x))))


def attend(q, k, v):
    return functional.softmax(q @ k.mT, dim=-1) @ v


class Attending(nn.Module):
    def forward(self, x):
        return attend(x, x, x)


class ModernDecoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention, self.network = Attending(), nn.Linear(d_model, d_ff)

    def forward(self, x):
        return x + self.network(self.norm2(x + self.attention(self.norm1(x))))


def test_a_layer_may_be_called_decoder_and_leave_the_softmax_to_a_function():
    assert guess.kinds_of("ModernDecoder", ModernDecoder, KINDS)[0] == "EncoderLayer"


def test_a_layer_may_be_called_transformer():
    methods = {"__init__": of_a_layer, "forward": of_vectors}
    assert guess.kinds_of("Transformer", named("Transformer", methods), KINDS)[0] == "EncoderLayer"


def of_words(self, x):
    return functional.log_softmax(self.linear(x), dim=-1)


def with_linear(self, d_model, vocab_size):
    self.linear = nn.Linear(d_model, vocab_size)


class DenseReluDense(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wi, self.wo = nn.Linear(config.d_model, config.d_ff), nn.Linear(config.d_ff, config.d_model)

    def forward(self, x):
        return self.wo(functional.relu(self.wi(x)))


def with_a_part(self, module):
    self.module = module


def of_a_residual(self, x, **options):
    return self.module(x, **options) + x


def with_dropout(self, dropout):
    self.dropout = nn.Dropout(dropout)


def with_dropout_and_norm(self, d_model, dropout):
    self.dropout, self.ln = nn.Dropout(dropout), nn.Identity(d_model)


def of_an_output(self, x, sublayer_output):
    return x + self.dropout(sublayer_output)


def of_two_sentences(self, x, seg, mask):
    return self.blocks(self.token_embedding(x) + self.segment_embedding(seg), mask)


def of_one_sentence(self, x, seq, mask):
    return self.blocks(self.token_embedding(x) + seq, mask)


@pytest.mark.parametrize("forward, encodes", [(of_two_sentences, True), (of_one_sentence, False)])
def test_what_is_told_which_sentence_a_token_is_of_reads_both(forward, encodes):
    found = guess.kinds_of("MyGPT", named("MyGPT", {"__init__": with_embedding, "forward": forward}), KINDS)
    assert found and ("TokenEncoder" in found[: found.index("DecoderOnly")]) == encodes


def test_several_linear_layers_are_no_linear_layer():
    assert guess.kinds_of("DenseReluDense", DenseReluDense, KINDS)[0] == "FeedForward"


def test_a_sum_without_a_norm_is_no_part_of_its_own():
    methods = {"__init__": with_a_part, "forward": of_a_residual}
    assert guess.kinds_of("Residual", named("Residual", methods), KINDS) == ()
    methods = {"__init__": with_dropout, "forward": of_an_output}
    assert guess.kinds_of("ResidualConnection", named("ResidualConnection", methods), KINDS) == ()
    methods |= {"__init__": with_dropout_and_norm}
    assert guess.kinds_of("ResidualConnection", named("ResidualConnection", methods), KINDS)[0] == "ResidualConnection"


def test_a_layer_of_predictions_projects():
    methods = {"__init__": with_linear, "forward": of_words}
    assert guess.kinds_of("PredictionLayer", named("PredictionLayer", methods), KINDS)[0] == "Projection"


def test_what_has_weights_makes_no_mask():
    methods = {"__init__": with_embedding, "forward": of_ids}
    found = guess.kinds_of("DecoderMaskDemo", named("DecoderMaskDemo", methods), KINDS)
    assert not any(kind.endswith("Mask") for kind in found)


def test_letters_within_a_word_are_no_short_name():
    assert guess.kinds_of("Film", named("Film", {"forward": of_ids}), KINDS) == ()


def test_an_activation_that_is_told_widths_is_a_network():
    def init(self, d_model, d_ff):
        pass

    assert guess.kinds_of("SiLU", named("SiLU", {"__init__": init, "forward": of_scores}), KINDS)[0] == "FeedForward"
    assert guess.kinds_of("SiLU", named("SiLU", {"forward": lambda self, x: x}), KINDS)[0] == "SiLU"


def test_tokens_with_positions_are_no_positions_alone():
    name = "TokenPositionalEmbedding"
    assert guess.kinds_of(name, named(name, {"forward": of_ids}), KINDS)[0] == "EmbeddingWithPositions"


STACK_OF_SUBLAYERS = """
class LayerNormalization(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


class ResidualConnection(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = LayerNormalization(features)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))


class EncoderStack(nn.Module):
    def __init__(self, d_model, h, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, h, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.residual_connections = nn.ModuleList([ResidualConnection(d_model) for _ in range(2)])

    def forward(self, x, src_mask):
        x = self.residual_connections[0](x, lambda y: self.attention(y, y, y, key_padding_mask=src_mask)[0])
        return self.residual_connections[1](CALLED, self.network)
"""


@pytest.mark.parametrize("called, verdict", [("x", "matches the builtin"), ("x.detach() * 2", "unknown mismatch")])
@pytest.mark.long
def test_a_list_of_residual_connections_is_no_list_of_layers(called, verdict, tmp_path):
    result = check_text(STACK_OF_SUBLAYERS.replace("CALLED", called), tmp_path)["EncoderStack"]
    assert (result.kind, result.verdict) == ("EncoderLayer", verdict)


STACK_OF_LAYERS = (
    STACK_OF_SUBLAYERS.replace("EncoderStack", "EncoderBlock").replace("CALLED", "x")
    + """

class Config:
    D_MODEL, HEADS, D_FF, ENCODER_LAYERS = 512, 8, 2048, 6


class Encoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        blocks = [EncoderBlock(config.D_MODEL, config.HEADS, config.D_FF) for _ in range(config.ENCODER_LAYERS)]
        self.layers, self.norm = nn.ModuleList(blocks), LayerNormalization(config.D_MODEL)

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
"""
)


def test_a_stack_of_layers_whose_norms_are_in_their_residual_connections_is_no_layer(tmp_path):
    path = tmp_path / "learner.py"
    path.write_text(IMPORTS + STACK_OF_LAYERS)
    first = {entry[1]: entry[3][0] for entry in checking_of(path, ())[0].found}
    assert (first["Encoder"], first["EncoderBlock"]) == ("Encoder", "EncoderLayer")
    path.write_text(IMPORTS + STACK_OF_LAYERS.replace("EncoderBlock", "Part").replace("Encoder(", "Stack("))
    assert "Stack" not in {entry[1] for entry in checking_of(path, ())[0].found if entry[3][0].endswith("Layer")}


HEADS = """
class BertMLM(nn.Module):
    def __init__(self, embedding_dim, vocab_size):
        super().__init__()
        self.linear = nn.Linear(embedding_dim, vocab_size)

    def forward(self, inputs):
        return self.linear(inputs)


class BertModel(nn.Module):
    def __init__(self, encoder, embedding_dim, vocab_size):
        super().__init__()
        self.encoder, self.linear = encoder, nn.Linear(embedding_dim, vocab_size)

    def forward(self, inputs, mask=None):
        return self.linear(self.encoder(inputs, mask))
"""


@pytest.mark.long
def test_a_model_of_one_linear_layer_projects(tmp_path):
    results = check_text(HEADS, tmp_path)
    assert (results["BertMLM"].kind, results["BertMLM"].verdict) == ("Projection", "matches the builtin")
    assert "BertModel" not in results or results["BertModel"].kind != "Projection"
    twin = HEADS.replace("return self.linear(inputs)", "return self.linear(inputs).softmax(-1)")
    assert check_text(twin, tmp_path)["BertMLM"].verdict != "matches the builtin"


OF_THE_TUTORIAL = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        rows = torch.arange(max_len)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        self.register_buffer("pe", torch.stack((rows.sin(), rows.cos()), -1).flatten(1)[:, :d_model][:, None])

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


class TransformerModel(nn.Module):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers, dropout=0.5):
        super().__init__()
        self.ninp = ninp
        self.embeddings = nn.Embedding(ntoken, ninp)
        self.pos = PositionalEncoding(ninp, dropout)
        layer = nn.TransformerEncoderLayer(ninp, nhead, nhid, dropout)
        self.encoder = nn.TransformerEncoder(layer, nlayers, enable_nested_tensor=False)
        self.decoder = nn.Linear(ninp, ntoken)

    def forward(self, src):
        return self.decoder(self.encoder(self.pos(self.embeddings(src) * math.sqrt(self.ninp))))
"""


@pytest.mark.long
def test_a_transformer_model_without_a_word_of_today_is_tried_as_gpt_first(tmp_path):
    result = check_text(OF_THE_TUTORIAL, tmp_path)["TransformerModel"]
    assert (result.kind, result.verdict) == ("DecoderOnly", "matches the builtin"), result
    assert "A25" in {mistake.id for mistake in result.mistakes}
    with time_to_look(LESS):
        wrong = check_text(OF_THE_TUTORIAL.replace("x + self.pe", "x - self.pe"), tmp_path)["TransformerModel"]
    assert wrong.verdict in ("mistake", "unknown mismatch"), wrong


def test_a_unit_of_an_encoder_is_a_layer():
    kinds = {name: likeness.kind_named(name, KINDS) for name in ("encoder_unit", "DecoderUnit", "encoder")}
    assert kinds == {"encoder_unit": "EncoderLayer", "DecoderUnit": "DecoderLayer", "encoder": "Encoder"}


DOUBLE = """
class DoubleLinear(nn.Module):
    def __init__(self, in_columns: int, inner_columns: int, out_columns: int, activation=F.gelu):
        super().__init__()
        self.activation = activation
        self.weights_first = nn.Parameter(torch.randn(inner_columns, in_columns) / in_columns**0.5)
        self.biases_first = nn.Parameter(torch.zeros(inner_columns))
        self.weights_second = nn.Parameter(torch.randn(out_columns, inner_columns) / inner_columns**0.5)
        self.biases_second = nn.Parameter(torch.zeros(out_columns))

    def forward(self, x):
        y = self.activation(x @ self.weights_first.T + self.biases_first)
        return y @ self.weights_second.T + self.biases_second
"""


@pytest.mark.long
def test_two_matrices_and_an_activation_are_a_network(tmp_path):
    found = check_text(DOUBLE, tmp_path)["DoubleLinear"]
    assert (found.kind, found.verdict) == ("FeedForward", "matches the builtin")
    plain = DOUBLE.replace(", activation=F.gelu", "").replace("        self.activation = activation\n", "")
    factored = check_text(plain.replace("self.activation(", "("), tmp_path)
    assert all("B16" not in one.ids for one in factored.values())  # a linear layer in two factors, perhaps
    late = DOUBLE.replace("self.activation(x @ self.weights_first.T + self.biases_first)", "x @ self.weights_first.T")
    late = late.replace("return y @ self.weights_second.T", "return self.activation(y @ self.weights_second.T)")
    assert check_text(late, tmp_path)["DoubleLinear"].verdict not in ("matches the builtin", "harmless deviation")


SUBLAYERS = """
class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)

    def forward(self, query, key):
        return self.attention(query, key, key)[0]


class BertAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(d_model, n_heads), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        return self.norm(x + self.attention(x, x, x, key_padding_mask=mask)[0])


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(x + self.linear2(torch.relu(self.linear1(x))))


class BertTransformer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention, self.network = BertAttention(d_model, n_heads), FeedForward(d_model, d_ff)

    def forward(self, x, mask):
        return self.network(self.attention(x, mask))


class CrossAttentionBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.own, self.other = Attention(d_model, n_heads), Attention(d_model, n_heads)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, enc_out):
        x = self.norm1(x + self.own(x, x))
        x = self.norm2(x + self.other(x, enc_out))
        return self.norm3(x + self.mlp(x))


class BertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = BertTransformer(config.d_model, config.n_heads, config.d_ff)

    def forward(self, x, mask):
        return self.layers(x, mask)
"""


def test_a_layer_is_known_by_norms_that_its_sublayers_have_and_by_what_it_is_given(tmp_path):
    path = tmp_path / "learner.py"
    path.write_text(IMPORTS + SUBLAYERS)
    checking, _ = checking_of(path, [])
    kinds = {name: kinds for _, name, _, kinds, _, _ in checking.found}
    assert kinds["BertTransformer"][0] == "EncoderLayer"
    assert kinds["CrossAttentionBlock"][0] == "DecoderLayer"
    assert kinds["BertModel"][0] not in ("EncoderLayer", "DecoderLayer", "DecoderOnlyLayer")


class FullTransformer(nn.Module):
    def __init__(self, transformer_stack, embedding, d_model, vocab_size):
        super().__init__()
        self.transformer_stack, self.embedding = transformer_stack, embedding
        self.output_layer = nn.Linear(d_model, vocab_size)

    def forward(self, ids, mask):
        x = self.transformer_stack(self.embedding(ids), mask)
        return functional.log_softmax(self.output_layer(x), dim=-1)


def test_a_model_whose_parts_are_handed_in_does_more_than_project():
    kinds = guess.kinds_of("FullTransformer", FullTransformer, KINDS)
    assert "Projection" not in kinds and "DecoderOnly" in kinds


class SublayerWrapper(nn.Module):
    def __init__(self, dim, sublayer, dropout):
        super().__init__()
        self.sublayer, self.dropout, self.norm = sublayer, nn.Dropout(dropout), nn.LayerNorm(dim)

    def forward(self, x, *others):
        return self.norm(x + self.dropout(self.sublayer(x, *others)))


class LogSoftmax(nn.Module):
    def __init__(self, width, vocab_size):
        super().__init__()
        self.linear = nn.Linear(width, vocab_size)

    def forward(self, x):
        return functional.log_softmax(self.linear(x), dim=-1)


class Regression(LogSoftmax):
    def __init__(self, width, height):
        super().__init__(width * height, 10)


def test_what_wraps_a_sublayer_that_it_is_given_is_a_residual_connection():
    assert guess.kinds_of("SublayerWrapper", SublayerWrapper, KINDS)[0] == "ResidualConnection"
    assert guess.kinds_of("Wrapper", named("Wrapper", {"forward": of_scores}), KINDS) == ()


def test_scores_of_words_and_their_log_softmax_are_a_projection():
    assert guess.kinds_of("LogSoftmax", LogSoftmax, KINDS) == ("Projection",)
    assert guess.kinds_of("Regression", Regression, KINDS) == ()


def of_two_vectors(self, target, encoder_input, src_mask=None, trg_mask=None):
    output = target
    for layer in self.layers:
        output = layer(output, encoder_input, src_mask, trg_mask)
    return output


def of_embedded(self, target, encoder_input, src_mask=None, trg_mask=None):
    return of_two_vectors(self, self.embedding(target), encoder_input, src_mask, trg_mask)


def told_its_width(self, embed_dim, n_layers):
    super(nn.Module, self).__init__()
    self.embed_dim, self.n_layers = embed_dim, n_layers


@pytest.mark.parametrize("forward, kind", [(of_two_vectors, "Decoder"), (of_embedded, "TokenDecoder")])
def test_what_speaks_of_no_words_is_given_vectors(forward, kind):
    """Whatever it calls them: no width of an embedding is one."""
    cls = named("Decoder", {"__init__": told_its_width, "forward": forward})
    assert guess.kinds_of("Decoder", cls, KINDS)[0] == kind


class Sides(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers):
        super().__init__()
        layers = {"num_layers": num_layers, "enable_nested_tensor": False}
        self.words = nn.Embedding(vocab_size, d_model)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model, num_heads), **layers)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d_model, num_heads), num_layers)
        self.out = nn.Linear(d_model, vocab_size)

    def forward(self, src, tgt):
        return self.out(self.decoder(self.words(tgt), self.encoder(self.words(src))))


class Across(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.q, self.kv = num_heads, nn.Linear(d_model, d_model), nn.Linear(d_model, 2 * d_model)

    def forward(self, x, memory):
        k, v = self.kv(memory).chunk(2, -1)
        heads = [one.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for one in (self.q(x), k, v)]
        return functional.softmax(heads[0] @ heads[1].mT, dim=-1) @ heads[2]


@pytest.mark.parametrize("name", ["CrossAttentionSeq2SeqModel", "MultiHeadAttentionTransformer", "Seq2SeqModel"])
def test_a_whole_model_that_is_called_after_its_attention_is_one(name):
    assert guess.kinds_of(name, Sides, KINDS)[0] == "Transformer"
    assert guess.kinds_of("CrossAttentionModel", Across, KINDS)[0] == "CrossAttention"
