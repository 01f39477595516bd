"""BERT's cut of a layer into outputs, intermediate and pooler; heads under unfamiliar names; tables by functions."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

BERT = """
class BertSelfOutput(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.dropout(self.dense(hidden_states))
        return {summed}

class BertIntermediate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.act = nn.{act}()

    def forward(self, hidden_states):
        return {acted}

class BertOutput(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.intermediate_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, input_tensor):
        hidden_states = {dropped}
        return self.LayerNorm(hidden_states + input_tensor)

class BertPooler(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states):
        return torch.tanh(self.dense({first}))

class NextSentenceHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled_output):
        return self.seq_relationship(pooled_output)
"""
RIGHT = {
    "summed": "self.LayerNorm(hidden_states + input_tensor)",
    "act": "GELU",
    "acted": "self.act(self.dense(hidden_states))",
    "dropped": "self.dropout(self.dense(hidden_states))",
    "first": "hidden_states[:, 0]",
}
KIND_OF = {
    "BertSelfOutput": "AttentionOutput",
    "BertIntermediate": "Intermediate",
    "BertOutput": "NetworkOutput",
    "BertPooler": "SentenceHead",
    "NextSentenceHead": "Projection",
}


def test_the_parts_of_bert_s_layer_are_judged(tmp_path):
    results = check_text(BERT.format(**RIGHT), tmp_path)
    assert {name: one.kind for name, one in results.items()} == KIND_OF
    assert {one.verdict for one in results.values()} == {"matches the builtin"}, results


@pytest.mark.parametrize(
    ("change", "name", "id"),
    [
        ({"summed": "self.LayerNorm(hidden_states) + input_tensor"}, "BertSelfOutput", "B3"),
        ({"summed": "self.LayerNorm(hidden_states)"}, "BertSelfOutput", "B13"),
        ({"dropped": "F.dropout(self.dense(hidden_states), 0.1)"}, "BertOutput", "B12"),
        ({"acted": "self.dense(hidden_states)"}, "BertIntermediate", "B16"),
        ({"act": "Tanh"}, "BertIntermediate", "B8"),
    ],
)
def test_the_mistake_of_a_part_is_named(change, name, id, tmp_path):
    results = check_text(BERT.format(**RIGHT | change), tmp_path)
    found = {one: result.severe for one, result in results.items()}
    assert id in found.pop(name) and not any(found.values())


def test_widths_and_numbers_of_words_may_be_told_in_other_words(tmp_path):
    text = BERT.format(**RIGHT).replace("config.intermediate_size", "4 * config.hidden_size")
    text += HEADS.format(axis="-1", first="x").replace("vocab_size", "logit_dim")
    results = check_text(text, tmp_path)
    names = ("BertIntermediate", "BertOutput", "VocabLogits", "GenerateLogits")
    assert {name: results[name].verdict for name in names} == dict.fromkeys(names, "matches the builtin")
    assert results["BertOutput"].kind == "NetworkOutput"


def test_what_takes_another_token_is_no_head_of_sentences(tmp_path):
    assert "BertPooler" not in check_text(BERT.format(**RIGHT | {"first": "hidden_states[:, 1]"}), tmp_path)


HEADS = """
class VocabLogits(nn.Module):
    def __init__(self, embed_dim, vocab_size):
        super().__init__()
        self.linear = nn.Linear(embed_dim, vocab_size)

    def forward(self, x):
        return F.log_softmax(self.linear(x), dim={axis})

class GenerateLogits(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        return self.linear(x)

class ClassificationHead(nn.Module):
    def __init__(self, d_model, num_classes):
        super().__init__()
        self.fc = nn.Linear(d_model, num_classes)

    def forward(self, x):
        return self.fc(x.mean(dim=1))

class SentenceClassifier(nn.Module):
    def __init__(self, hidden_dim, n_classes, dropout=0.1):
        super().__init__()
        self.dense, self.out = nn.Linear(hidden_dim, hidden_dim), nn.Linear(hidden_dim, n_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features):
        x = self.dropout(features[:, 0])
        return self.out(self.dropout(torch.tanh(self.dense(x))))

class ResConnectionWithLayerNorm(nn.Module):
    def __init__(self, d_input: int, dropout: float):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_input), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return {first} + self.dropout(sublayer(self.norm(x)))
"""


@pytest.mark.parametrize(
    ("change", "name", "ids"),
    [
        ({}, "", []),
        ({"axis": "1"}, "VocabLogits", ["B18"]),
        ({"first": "x + x"}, "ResConnectionWithLayerNorm", ["B23"]),
    ],
)
def test_heads_and_sums_under_unfamiliar_names(change, name, ids, tmp_path):
    results = check_text(HEADS.format(**{"axis": "-1", "first": "x"} | change), tmp_path)
    names = ("VocabLogits", "GenerateLogits", "ClassificationHead", "SentenceClassifier", "ResConnectionWithLayerNorm")
    assert {one: result.severe for one, result in results.items()} == {one: ids if one == name else [] for one in names}
    assert results["ClassificationHead"].kind == results["SentenceClassifier"].kind == "SentenceHead"
    assert results["ClassificationHead"].verdict == results["SentenceClassifier"].verdict == "matches the builtin"


OTHER_DESIGNS = """
class Merge(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.lin, self.norm = nn.Linear(d_model, d_model), nn.LayerNorm(d_model)

    def forward(self, x, y):
        return self.norm(self.lin(x) + self.lin(y))

class Scores(nn.Module):
    def __init__(self, d_model, num_classes):
        super().__init__()
        self.fc = nn.Linear(2 * d_model, num_classes)

    def forward(self, x):
        return self.fc(torch.cat([x[:, 0], x.mean(1)], -1))
"""


def test_other_designs_are_no_such_parts(tmp_path):
    assert not check_text(OTHER_DESIGNS, tmp_path)


TABLES = """
def sinusoid(max_len, d):
    angle = np.arange(max_len)[:, None] / np.power(10000, 2 * (np.arange(d)[None] // 2) / d)
    angle[:, 0::2], angle[:, 1::2] = np.{even}(angle[:, 0::2]), np.{odd}(angle[:, 1::2])
    return angle

def freqs(dim, length):
    angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
    return angles.cos(), angles.sin()
"""


@pytest.mark.parametrize(("even", "odd", "ids"), [("sin", "cos", []), ("cos", "sin", ["P3"])])
def test_a_table_of_sines_by_a_function(even, odd, ids, tmp_path):
    results = check_text("import numpy as np\n" + TABLES.format(even=even, odd=odd), tmp_path)
    assert results["sinusoid"].kind == "PositionalEncoding" and "freqs" not in results
    assert results["sinusoid"].ids == ids
    named = TABLES.replace("sinusoid(max_len, d)", "sinusoidal_embeddings(num_embeddings, embedding_dim)")
    named = (
        named.replace("max_len", "num_embeddings").replace("(d)", "(embedding_dim)").replace("/ d)", "/ embedding_dim)")
    )
    found = check_text("import numpy as np\n" + named.format(even=even, odd=odd), tmp_path)["sinusoidal_embeddings"]
    assert (found.kind, found.ids) == ("PositionalEncoding", ids)
