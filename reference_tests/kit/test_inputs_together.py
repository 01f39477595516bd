"""Forwards that are given all inputs in one dictionary or tuple, which they take apart."""

import pytest

from reference_tests.kit.learners.checked import check_text

BERT = """
class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.tok, self.pos, self.seg = (nn.Embedding(n, d_model) for n in (vocab_size, max_len, 2))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, ids, segments):
        return self.norm(self.tok(ids) + self.pos(torch.arange(ids.size(1))) + self.seg(segments))


class BERT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff, max_len=64):
        super().__init__()
        self.embeddings = Embeddings(vocab_size, d_model, max_len)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.words = nn.Linear(d_model, vocab_size)

    def forward(self, GIVEN):
        TAKEN
        x = self.layers(self.embeddings(ids, segments), src_key_padding_mask=mask HIDES)
        return self.words(x)
"""
APART = {"GIVEN": "ids, segments, mask", "TAKEN": ""}
DICTIONARY = {
    "GIVEN": "batch",
    "TAKEN": 'ids, segments, mask = batch["input_ids"], batch["token_type_ids"], batch["attention_mask"]',
}
TUPLE = {"GIVEN": "inputs", "TAKEN": "ids, segments, mask = inputs"}


@pytest.mark.long
@pytest.mark.parametrize("hides, meaning", [("== 0", "may attend"), ("== 1", "blocked")])
@pytest.mark.parametrize("how", [APART, DICTIONARY, TUPLE])
def test_a_model_that_is_given_ids_segments_and_mask_in_one(how, hides, meaning, tmp_path):
    text = BERT
    for word, put in how.items():
        text = text.replace(word, put)
    result = check_text(text.replace("HIDES", hides), tmp_path)["BERT"]
    assert result.verdict == "matches the builtin"
    assert any(f"mask was given as (B, S), True = {meaning}" in n for n in result.notes)


ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, inputs, mask=None):
        query, key, value = inputs
        q, k, v = (
            w(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for w, x in zip((self.wq, self.wk, self.wv), (query, key, value))
        )
        scores = q @ k.mT / SCALE
        weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.long
@pytest.mark.parametrize("scale, ids", [("k.shape[-1] ** 0.5", []), ("self.wq.in_features ** 0.5", ["A1"])])
def test_attention_that_is_given_a_tuple(scale, ids, tmp_path):
    result = check_text(ATTENTION.replace("SCALE", scale), tmp_path)["MultiHeadAttention"]
    assert result.severe == ids, result
    assert "Its argument inputs is a tuple: query, key, value." in result.notes


NUMBERED = """query = inputs[0]
        key = inputs[1]
        value = inputs[2]"""


@pytest.mark.parametrize("scale, ids", [("k.shape[-1] ** 0.5", []), ("self.wq.in_features ** 0.5", ["A1"])])
def test_attention_that_is_given_a_list_and_takes_one_after_the_other(scale, ids, tmp_path):
    text = ATTENTION.replace("query, key, value = inputs", NUMBERED).replace("SCALE", scale)
    result = check_text(text, tmp_path)["MultiHeadAttention"]
    assert result.severe == ids, result
    assert "Its argument inputs is a list: query, key, value." in result.notes


GPT = """
class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len=50):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.words = nn.Linear(d_model, vocab_size)

    def forward(self, batch):
        ids, length = batch["ids"], batch["ids"].shape[1]
        x = self.embedding(ids) + self.positions(torch.arange(length))
        logits = self.words(self.layers(x, mask=torch.full((length, length), -torch.inf).triu(1)))
        if "labels" in batch:
            return logits, F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        return logits
"""


def test_what_is_asked_for_before_it_is_taken_need_not_be_there(tmp_path):
    assert check_text(GPT, tmp_path)["GPT"].verdict == "matches the builtin"
