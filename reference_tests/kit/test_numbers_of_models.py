"""Numbers that what writes text reads from its own model: the id of padding, its longest sequence, its words."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

MODEL = """
class Interpreter(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, seq_len, pad_ind, start_ind, end_ind):
        super().__init__()
        self.vocab_size, self.seq_len, self.pad_ind = vocab_size, seq_len, pad_ind
        self.start_ind, self.end_ind = start_ind, end_ind
        self.source_words, self.target_words = nn.Embedding(vocab_size, d_model), nn.Embedding(vocab_size, d_model)
        self.body = nn.Transformer(d_model, num_heads, 1, 1, d_ff, 0.0, batch_first=True)
        self.project = nn.Linear(d_model, vocab_size)

    def forward(self, src, trg):
        future = torch.ones(trg.size(1), trg.size(1), dtype=torch.bool).triu(1)
        padding = src == self.pad_ind
        out = self.body(self.source_words(src), self.target_words(trg), tgt_mask=future, src_key_padding_mask=padding,
                        memory_key_padding_mask=padding)
        return self.project(out)

    @torch.no_grad()
    def inference(self, src):
        trg = torch.LongTensor([self.pad_ind] * self.seq_len)
        trg[0] = self.start_ind
        for i in range(self.seq_len - 1):
            logits = self(src, trg[None]).view(1, self.seq_len, self.vocab_size)
            trg[i + 1] = logits[0, i].CHOICE()
            if trg[i + 1].item() == self.end_ind:
                break
        return trg[: i + 2]
"""
NAME = "Interpreter.inference"


@pytest.mark.parametrize(("choice", "ids"), [("argmax", []), ("argmin", ["D6"])])
@pytest.mark.parametrize("ending", ["ind", "idx", "token_id"])
def test_what_writes_reads_them(choice, ids, ending, tmp_path):
    text = MODEL.replace("CHOICE", choice).replace("_ind", f"_{ending}")
    result = check_text(text, tmp_path, {NAME})[NAME]
    assert (result.kind, result.ids) == ("GreedyDecoding", ids), result


APART = """
    def __init__(self, vocab_size, d_model, num_heads, d_ff, seq_len, pad_ind, start_ind, end_ind):
        super().__init__()
        self.embedding, self.project = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.encoder = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True)
        self.seq_len, self.pad_ind, self.start_ind, self.end_ind = seq_len, pad_ind, start_ind, end_ind

    def inference(self, src):
        memory = self.encoder(self.embedding(src))
        trg = torch.LongTensor([self.pad_ind] * self.seq_len)
        trg[0] = self.start_ind
        for i in range(self.seq_len - 1):
            logits = self.project(self.decoder(self.embedding(trg), memory))
            trg[i + 1] = logits.argmax(dim=-1)[0][i]
            if trg[i + 1].item() == self.end_ind:
                break
        return trg[1:]
"""


def test_words_without_a_batch_have_that_of_their_memory(tmp_path):
    text = MODEL[: MODEL.index("    def __init__")] + APART.lstrip("\n")
    assert check_text(text, tmp_path, {NAME})[NAME].verdict == "matches the builtin"
