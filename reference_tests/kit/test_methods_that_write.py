"""A model's own methods that write text, and the words that they draw: judged with a toy in the model's place."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, checking_of, reported, written
from reference_tests.kit.learners.pieces import LANGUAGE_MODEL
from scratch_transformer.kit.resolve import foreign

pytestmark = pytest.mark.long

MODEL = """
class Model(nn.Module):
    def __init__(self, vocab_size, d_model, block_size):
        super().__init__()
        self.block_size, self.eos_id = block_size, 2
        self.embedding, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)

    def forward(self, idx, targets=None):
        logits = self.head(self.embedding(idx))
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss

    def _pick(self, logits):
        return logits.argmax(dim=-1, keepdim=True)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        self.eval()
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.block_size:])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                kth = torch.topk(logits, min(top_k, logits.size(-1))).values
                logits[logits < kth[:, [-1]]] = -float("inf")
            chosen = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            idx = torch.cat((idx, chosen), dim=1)
        return idx

    def greedy(self, idx, max_new_tokens):
        for _ in range(max_new_tokens):
            chosen = self._pick(self(idx)[0][:, -1])
            idx = torch.cat((idx, chosen), dim=1)
            if (chosen == self.eos_id).all():
                break
        return idx
"""
WRITES, DRAWS, GREEDY = "Model.generate", "Model.generate.sampling", "Model.greedy"


def results(text, folder, name):
    path = folder / "learner.py"
    path.write_text(IMPORTS + text)
    return checking_of(path, {name})[1]


@pytest.mark.parametrize("length", ["-self.block_size", "-self.reach", "max(0, idx.size(1) - self.reach)"])
def test_what_a_model_writes_itself_is_judged(length, tmp_path):
    """Whatever its longest sequence is called: a length is what is counted with."""
    text = MODEL.replace("-self.block_size", length).replace("self.block_size", "self.reach")
    found = {name: results(text, tmp_path, name)[name] for name in (WRITES, DRAWS, GREEDY)}
    assert {name: (one.kind, one.verdict) for name, one in found.items()} == {
        WRITES: ("GreedyDecoding", "matches the builtin"),
        DRAWS: ("Sampling", "matches the builtin"),
        GREEDY: ("GreedyDecoding", "matches the builtin"),
    }


@pytest.mark.parametrize(
    ("name", "old", "new", "id", "form", "line"),
    [
        (WRITES, "logits[:, -1, :] / ", "logits[:, 0, :] / ", "D8", "", "logits[:, 0, :]"),
        (WRITES, "idx[:, -self.block_size:]", "idx[:, :self.block_size]", "D9", "", "idx[:, :self.block_size]"),
        (WRITES, "(idx, chosen)", "(chosen, idx)", "D10", "", "(chosen, idx)"),
        (GREEDY, "argmax(", "argmin(", "D6", "", "argmin("),
        (GREEDY, "                break\n", "                pass\n", "D4", "", "eos_id"),
        (DRAWS, "/ temperature", "* temperature", "S1", "multiplied", "* temperature"),
        (DRAWS, " / temperature", "", "S1", "not used", "def generate"),
        (DRAWS, "logits < kth", "logits <= kth", "S4", "one fewer", "logits <= kth"),
        (DRAWS, "logits[logits < kth[:, [-1]]] = -float", "logits.masked_fill(logits < kth[:, [-1]], -float",
         "S4", "it is not used", "masked_fill"),
        (DRAWS, '-float("inf")', "0.0", "S3", "", "= 0.0"),
    ],
)  # fmt: skip
def test_a_mistake_in_it_is_named_with_its_line(name, old, new, id, form, line, tmp_path):
    assert old in MODEL
    text = MODEL.replace(old, new)
    if "masked_fill" in new:
        text = text.replace('-float("inf")', '-float("inf"))')
    found = results(text, tmp_path, name)[name]
    assert [(one.id, one.form) for one in found.mistakes if one.severity == "mistake"] == [(id, form)]
    shown = int(found.mistakes[0].where.rpartition(":")[2])
    assert line in (IMPORTS + text).splitlines()[shown - 1]


def test_more_words_may_be_kept_by_default_than_the_toy_knows(tmp_path):
    text = MODEL.replace("top_k=None", "top_k=50").replace("min(top_k, logits.size(-1))", "top_k")
    found = {name: results(text, tmp_path, name)[name].verdict for name in (WRITES, DRAWS)}
    assert set(found.values()) == {"matches the builtin"}


FUNCTION = """
def generate(model, idx, max_new_tokens, temperature=1.0, top_p=1.0, do_sample=False):
    for _ in range(max_new_tokens):
        logits = model(idx)[:, -1] / temperature
        ordered, order = torch.sort(logits, descending=True)
        shares = ordered.softmax(-1)
        ordered[shares.cumsum(-1) - shares > top_p] = -math.inf
        logits = torch.full_like(logits, -math.inf).scatter(-1, order, ordered)
        chosen = torch.multinomial(logits.softmax(-1), 1) if do_sample else logits.argmax(-1, keepdim=True)
        idx = torch.cat((idx, chosen), dim=1)
    return idx
"""


@pytest.mark.parametrize(("old", "new", "ids"), [("", "", []), ("cumsum(-1) - shares", "cumsum(-1)", ["S2"])])
def test_what_a_function_draws_is_judged_too(old, new, ids, tmp_path):
    found = results(FUNCTION.replace(old, new) if old else FUNCTION, tmp_path, "generate.sampling")["generate.sampling"]
    assert found.ids == ids
    assert found.verdict == ("mistake" if ids else "matches the builtin")


@pytest.mark.parametrize("window", ["context_size", "block_size"])
@pytest.mark.parametrize("temperature, ids", [("/ temperature", []), ("* temperature", ["S1"])])
def test_what_draws_may_have_to_be_told_how_long_a_text_the_model_takes(window, temperature, ids, tmp_path):
    text = FUNCTION.replace("max_new_tokens,", f"max_new_tokens, {window},").replace(
        "model(idx)", f"model(idx[:, -{window}:])"
    )
    found = results(text.replace("/ temperature", temperature), tmp_path, "generate.sampling")
    assert found["generate.sampling"].severe == ids


ENDS = """
def continued(model, context, stop_token_ids, max_gen_seq_length=9, temperature=1.0, repetition_penalty=1.0):
    for _ in range(max_gen_seq_length):
        logits = model(context, last_alone=True) / temperature
        if repetition_penalty != 1:
            for word in set(context.view(-1).tolist()):
                logits[..., word] PENALTY
        word = torch.multinomial(logits.softmax(-1), 1)
        context = torch.cat((context, word), dim=1)
        if any(word.item() == one for one in stop_token_ids):
            break
    return context
"""


@pytest.mark.parametrize("penalty, ids", [("/= repetition_penalty", ["S5"]), (
    "*= repetition_penalty ** (1 - 2 * (logits[..., word].item() > 0))", []
)])  # fmt: skip
def test_what_draws_may_be_told_of_several_ends_and_of_a_context(penalty, ids, tmp_path):
    text = ENDS.replace("PENALTY", penalty)
    found = results(text, tmp_path, "continued.sampling")["continued.sampling"]
    assert (found.kind, found.severe) == ("Sampling", ids)
    assert all("/= repetition_penalty" in one.shown for one in found.mistakes)


@pytest.mark.parametrize("share, ids", [("scores / tau", []), ("scores * tau", ["S1"])])
def test_a_softmax_of_a_temperature_that_it_must_be_told_draws(share, ids, tmp_path):
    text = f"def softmax_with_temp(scores, tau):\n    return torch.softmax({share}, dim=-1)\n"
    assert results(text, tmp_path, "softmax_with_temp")["softmax_with_temp"].severe == ids


def test_what_a_function_draws_is_where_that_begins_below_its_decorators(tmp_path):
    text = FUNCTION.replace("def generate", "@torch.no_grad()\ndef generate")
    where = results(text, tmp_path, "generate.sampling")["generate.sampling"].where
    assert (IMPORTS + text).splitlines()[int(where.rpartition(":")[2]) - 1].startswith("def generate(")


@pytest.mark.parametrize("name", ["prompt_ids", "start_tokens", "initial_idx"])
@pytest.mark.parametrize("temperature, ids", [("/ temperature", []), ("* temperature", ["S1"])])
def test_the_first_words_of_what_draws_may_be_called_a_prompts(name, temperature, ids, tmp_path):
    text = FUNCTION.replace("/ temperature", temperature).replace("idx", name)
    assert results(text, tmp_path, "generate.sampling")["generate.sampling"].severe == ids


def test_what_cannot_be_called_with_a_toy_is_no_component(tmp_path):
    """It asks for what only the model itself has."""
    text = MODEL.replace("self(idx)[0][:, -1]", "self(idx)[0][:, self.table[3]]")
    checking, found = checking_of(written(text, tmp_path), {GREEDY})
    assert found[GREEDY].verdict == foreign.OF_ITS_MODEL and checking._is_nothing(found[GREEDY])


PENALTY = """
class Writer(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.words, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        return self.head(self.words(ids))

    def generate(self, ids, max_new_tokens, temperature=1.0, repetition_penalty=1.3):
        begin = ids.shape[1]
        for _ in range(max_new_tokens):
            logits = self(ids)[:, -1] / temperature
            for row, said in zip(logits, ids):
                for word in said.unique():
                    row[word] = row[word] / repetition_penalty if row[word] > 0 else row[word] * repetition_penalty
            ids = torch.cat((ids, torch.multinomial(logits.softmax(-1), 1)), 1)
        return ids
"""
IF_POSITIVE = "row[word] / repetition_penalty if row[word] > 0 else row[word] * repetition_penalty"


@pytest.mark.parametrize(
    ("old", "new", "form"),
    [
        ("", "", None),
        ("in said.unique()", "in said.tolist()", None),
        ("in said.unique()", "in said[begin:].unique()", None),
        (IF_POSITIVE, "row[word] / repetition_penalty", "negative logits are divided too"),
        (IF_POSITIVE, "row[word] * repetition_penalty", "positive logits are multiplied too"),
        ("row[word] > 0", "row[word] < 0", "the other way round"),
    ],
)
def test_a_repetition_penalty_is_judged_by_what_is_drawn(old, new, form, tmp_path):
    """Of the likeliest words it is none: there it is told to change nothing."""
    text = PENALTY.replace(old, new) if old else PENALTY
    drawn = results(text, tmp_path, "Writer.generate.sampling")["Writer.generate.sampling"]
    assert results(text, tmp_path, "Writer.generate")["Writer.generate"].verdict == "matches the builtin"
    assert [(one.id, one.form) for one in drawn.mistakes] == ([("S5", form)] if form else [])
    assert drawn.verdict == ("mistake" if form else "matches the builtin")
    if form:
        shown = int(drawn.mistakes[0].where.rpartition(":")[2])
        assert "row[word] = " in (IMPORTS + text).splitlines()[shown - 1]


PAIR = """
class Pair(nn.Module):
    def __init__(self, vocab_size, width, block_size):
        super().__init__()
        self.block_size = block_size
        self.words, self.scores = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size)

    def forward(self, ids, targets=None):
        answer = {"logits": self.scores(self.words(ids)), "hidden": None}
        return PAIRED

    @torch.no_grad()
    def generate(self, ids, max_new_tokens, temperature=1.0, repetition_penalty=1.0):
        for _ in range(max_new_tokens):
            logits = self(ids[:, -self.block_size:])[PLACE]["logits"][:, -1]
            said = logits.gather(1, ids)
            logits = logits.scatter(1, ids, PENALIZED)
            drawn = torch.multinomial(F.softmax(logits / temperature, dim=-1), num_samples=1)
            ids = torch.cat([ids, drawn], dim=1)
        return ids
"""
PENALIZED = "torch.where(said > 0, said / repetition_penalty, said * repetition_penalty)"


@pytest.mark.parametrize("paired, place", [('{"logits": answer["logits"]}, None', "0"), ("None, answer", "1")])
@pytest.mark.parametrize("penalized, ids", [(PENALIZED, []), ("said / repetition_penalty", ["S5"])])
def test_a_model_may_return_a_dictionary_and_something_else(paired, place, penalized, ids, tmp_path):
    text = PAIR.replace("PAIRED", paired).replace("PLACE", place).replace("PENALIZED", penalized)
    result = results(text, tmp_path, "Pair.generate.sampling")["Pair.generate.sampling"]
    assert result.ids == ids, result
    assert result.verdict == ("mistake" if ids else "matches the builtin")


BIGRAMS = """
class Bigrams(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, idx, targets=None):
        logits = self.table(idx)
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def generate(self, idx, max_new_tokens, temperature=1.0):
        for _ in range(max_new_tokens):
            logits = self(idx[:, -1:])[0][:, -1] / temperature
            idx = torch.cat([idx, torch.multinomial(logits.softmax(-1), 1)], dim=1)
        return idx
"""


@pytest.mark.parametrize("name", ["Bigrams", "BigramLanguageModel"])
@pytest.mark.parametrize("old, new, ids", [("", "", []), ("/ temperature", "* temperature", ["S1"])])
def test_how_a_model_draws_that_attends_to_nothing(name, old, new, ids, tmp_path):
    """It may look at the last word alone, as it knows nothing of the others."""
    (result,) = reported(written(BIGRAMS.replace(old, new).replace("Bigrams", name), tmp_path)).results
    assert (result.name, result.ids) == (f"{name}.generate.sampling", ids), result


def test_a_model_that_attends_is_given_the_whole_text(tmp_path):
    text = MODEL.replace("self.block_size:]", "1:]").replace("self.embedding(idx)", "self.embedding(idx).softmax(1)")
    assert "D11" in results(text, tmp_path, WRITES)[WRITES].ids


BIGRAM = """
class Bigram(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, idx):
        return self.table(idx)

    def generate(self, idx, max_new_tokens):
        for _ in range(max_new_tokens):
            logits = self(GIVEN)[:, LAST]
            word = torch.multinomial(logits.softmax(-1), 1)
            idx = torch.cat((idx, word), dim=1)
        return idx
"""


@pytest.mark.parametrize("given, last, ids", [
    ("idx", "-1", []), ("idx", "0", ["D8"]), ("idx[:, -1:]", "-1", None), ("word", "-1", None),
    ("idx[:, -8:]", "-1", []), ("cut", "-1", []),
])  # fmt: skip
def test_what_attends_to_nothing_may_write_text_for_all_that(given, last, ids, tmp_path):
    """What gives it the last word alone gives it all that it knows of."""
    text = BIGRAM.replace("GIVEN", given).replace("LAST", last)
    text = text.replace("        for _", "        word = idx[:, -1:]\n        for _") if given == "word" else text
    cut = "            cut = idx if idx.size(1) <= 8 else idx[:, -8:]\n"
    text = text.replace("            logits =", f"{cut}            logits =") if given == "cut" else text
    results = {result.name: result for result in reported(written(text, tmp_path)).results}
    assert "Bigram" not in results and ("Bigram.generate" in results) == (ids is not None), results
    assert ids is None or results["Bigram.generate"].severe == ids


BEHIND_THE_LENGTH = """
    @torch.inference_mode()
    def generate(self, input_ids, max_new_tokens, use_cache=True):
        past = None
        for _ in range(max_new_tokens):
            seen = past[0][0].shape[DIM] if past else 0
            logits, _, past = self.forward(input_ids[:, seen:], None, past)
            input_ids = torch.cat([input_ids, logits[:, -1].argmax(-1, keepdim=True)], -1)
        return input_ids
"""


@pytest.mark.parametrize("dim", [1, 2, -2])
def test_keys_may_have_their_heads_before_or_behind_the_tokens(dim, tmp_path):
    model = MODEL.split("    def _pick")[0].replace("targets=None):", "targets=None, past=None):")
    model = model.replace("return logits, loss", "return logits, loss, [(logits, logits)]")
    text = model + BEHIND_THE_LENGTH.replace("DIM", str(dim)).strip("\n") + "\n"
    result = results(text, tmp_path, WRITES)[WRITES]
    assert result.severe == [] and result.verdict == "matches the builtin", result


RECURRENT = """
class Translator(nn.Module):
    def __init__(self, vocab_size, width, longest=11, start=1):
        super().__init__()
        self.table, self.cell = nn.Embedding(vocab_size, width), nn.LSTMCell(width, width)
        self.source, self.words = nn.Linear(width, width), nn.Linear(width, vocab_size)
        self.longest, self.start = longest, start

    def encode(self, x):
        state = self.source(self.table(x).mean(1))
        return state, state

    def translate(self, x):
        (h, c), given, written = self.encode(x), self.table(torch.full((len(x),), self.start)), []
        for _ in range(self.longest):
            h, c = self.cell(given, (h, c))
            word = self.words(h).argmax(dim=1)
            given = self.table(word)
            written.append(word)
        return torch.stack(written, dim=1)
"""


def test_what_keeps_a_state_is_given_the_last_word_alone(tmp_path):
    report = reported(written(RECURRENT, tmp_path))
    assert not report.results and "Translator (recurrent: nn.LSTMCell)" in report.ignored, report


OF_NUMBERS = """
    def device_of(self):
        return next(self.parameters()).device

    @torch.inference_mode()
    def generate(self, tokens, max_tokens, temperature=1.0, top_k=None, seed=42):
        draws = torch.Generator(device=self.device_of())
        draws.manual_seed(seed)
        ids = torch.tensor([tokens], device=self.words.weight.device)
        for _ in range(max_tokens):
            logits = self(ids)[:, -1]
            if top_k is not None:
                logits = logits.masked_fill(logits < logits.topk(KEPT).values[:, [-1]], -math.inf)
            word = torch.multinomial((logits / temperature).softmax(-1), 1, generator=draws)
            ids = torch.cat((ids, word), dim=1)
            yield word.item()
"""


@pytest.mark.parametrize("kept, ids", [("top_k", []), ("top_k + 1", ["S4"])])
def test_words_may_be_given_one_by_one_and_what_begins_be_a_list_of_numbers(kept, ids, tmp_path):
    name = "LanguageModel.generate.sampling"
    result = results(LANGUAGE_MODEL + OF_NUMBERS.replace("KEPT", kept), tmp_path, name)[name]
    assert [named.id for named in result.mistakes] == ids, result
