"""What writes text is known by its loop, whatever it is called: functions of a model, and methods of one."""

import pytest

from reference_tests.kit.learners.checked import checking_of, written

pytestmark = pytest.mark.long

FUNCTIONS = """
def predict(model, src, src_mask, max_len, bos_id, eos_id, device="cpu"):
    with torch.no_grad():
        memory = model.encode(src.to(device), src_mask)
        out = torch.tensor([[bos_id]], device=device)
        for _ in range(max_len - 1):
            word = model.decode(out, memory, src_mask)[:, -1].argmax(-1, keepdim=True)
            out = torch.cat([out, word], dim=1)
            if word.item() == eos_id:
                break
    return out


def answer_with(transformer, src, max_len, start_symbol, end_symbol):
    ids = torch.zeros(src.shape[0], max_len, dtype=torch.long)
    ids[:, 0] = start_symbol
    memory = transformer.encode(src)
    for t in range(1, max_len):
        ids[:, t] = transformer.decode(ids[:, :t], memory)[:, -1].argmax(-1)
        if (ids[:, t] == end_symbol).all():
            return ids[:, : t + 1]
    return ids


def complete(model, prompt_ids, n_tokens):
    ids = list(prompt_ids)
    while n_tokens > 0:
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
        n_tokens -= 1
    return ids


def predict_labels(model, loader):
    found = []
    for x, y in loader:
        found.append(model(x).argmax(-1))
    return torch.cat(found)


def evaluate(model, data, n):
    found = []
    for i in range(n):
        found.append(model(data[i]).argmax(-1))
    return torch.stack(found)


def fit(model, data, n):
    losses = []
    for i in range(n):
        loss = F.cross_entropy(model(data[i], losses).max(-1), data[i])
        loss.backward()
        losses.append(loss.item())
    return losses
"""
CACHED = """
class Cache:
    keys = values = None


def generate_with_cache(model, idx, max_new_tokens):
    cache, new = None, idx
    for _ in range(max_new_tokens):
        logits, cache = model(new, cache)
        new = logits[:, -1].argmax(-1, keepdim=True)
        idx = torch.cat([idx, new], 1)
    return idx


def generate_with_objects(model, idx, max_new_tokens):
    caches = [Cache() for _ in model.layers]
    logits = model(idx, kv_cache=caches)
    for _ in range(max_new_tokens):
        new = logits[:, -1].argmax(-1, keepdim=True)
        idx = torch.cat([idx, new], 1)
        logits = model(new, kv_cache=caches)
    return idx


def generate_by_places(model, prompt_tokens, max_gen_len, eos_id):
    total = len(prompt_tokens) + max_gen_len
    tokens = torch.zeros((1, total), dtype=torch.long)
    tokens[0, : len(prompt_tokens)] = torch.tensor(prompt_tokens)
    begin = 0
    for end in range(len(prompt_tokens), total):
        new = model(tokens[:, begin:end], begin)[:, -1].argmax(-1)
        tokens[:, end], begin = new, end
        if new.item() == eos_id:
            return tokens[0, : end + 1]
    return tokens[0]


def generate_with_a_flag(model, idx, max_new_tokens, use_cache=True):
    logits = model(idx, use_cache=use_cache)
    for _ in range(max_new_tokens):
        new = logits[:, -1].argmax(-1, keepdim=True)
        idx = torch.cat([idx, new], 1)
        logits = model(new if use_cache else idx, use_cache=use_cache)
    return idx


def generate_by_positions(model, idx, max_new_tokens):
    places, new = torch.arange(idx.size(1)), idx
    for _ in range(max_new_tokens):
        new = model(new, places)[:, -1].argmax(-1, keepdim=True)
        idx, places = torch.cat([idx, new], 1), places[-1:] + 1
    return idx


def generate_from_an_empty_cache(model, idx, max_new_tokens):
    model.clear_kv_cache()
    new = idx
    for _ in range(max_new_tokens):
        new = model(new)[:, -1].argmax(-1, keepdim=True)
        idx = torch.cat([idx, new], 1)
    return idx
"""
METHODS = """
class Model(nn.Module):
    def __init__(self, vocab_size, d_model, block_size, eos_id=2):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.block_size, self.eos_id = block_size, eos_id

    def forward(self, idx):
        return self.head(self.embedding(idx))

    def finish(self, idx, num_tokens):
        for _ in range(num_tokens):
            word = self(idx[:, -self.block_size:])[:, -1].argmax(-1, keepdim=True)
            idx = torch.cat((idx, word), dim=1)
            if (word == self.eos_id).all():
                break
        return idx

    def write(self, idx, num_tokens, temperature=1.0, top_k=None):
        for _ in range(num_tokens):
            logits = self(idx[:, -self.block_size:])[:, -1] / temperature
            if top_k is not None:
                logits[logits < logits.topk(top_k).values[:, [-1]]] = -float("inf")
            idx = torch.cat((idx, torch.multinomial(logits.softmax(-1), 1)), dim=1)
        return idx


class Speaker(nn.Module):
    def __init__(self, model, longest=30, bos_idx=1, eos_idx=2):
        super().__init__()
        self.model, self.longest, self.bos_idx, self.eos_idx = model, longest, bos_idx, eos_idx

    def say(self, src):
        memory, out = self.model.encoder(src), torch.tensor([[self.bos_idx]])
        for _ in range(self.longest):
            out = torch.cat([out, self.model.decoder(out, memory)[:, -1:].argmax(-1)], 1)
            if out[0, -1] == self.eos_idx:
                break
        return out
"""
ARGMAX, JOINED = "argmax(-1, keepdim=True)", "torch.cat((idx, word), dim=1)"


def ids(text, folder, name):
    """The mistakes; None of what is no component, or is not understood."""
    checking, found = checking_of(written(text, folder), {name})
    entries = [entry for entry in checking.found if entry[1] == name]
    if not entries or checking._only_reminds(entries[0][2], entries[0][3], found[name]):
        return None
    assert found[name].verdict == ("mistake" if found[name].ids else "matches the builtin")
    return found[name].ids


@pytest.mark.parametrize("name", ["predict", "answer_with", "complete"])
def test_a_function_is_judged(name, tmp_path):
    assert ids(FUNCTIONS, tmp_path, name) == []


@pytest.mark.parametrize("name", ["Model.finish", "Model.write", "Model.write.sampling", "Speaker.say"])
def test_a_method_is_judged(name, tmp_path):
    assert ids(METHODS, tmp_path, name) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "id"),
    [
        ("predict", "[:, -1].argmax", "[:, 0].argmax", "D8"),
        ("predict", "[out, word]", "[word, out]", "D10"),
        ("predict", "word.item() == eos_id", "out[0, 0] == eos_id", "D4"),
        ("answer_with", "ids[:, t] == end_symbol", "ids[:, 0] == end_symbol", "D4"),
        ("complete", "argmax()))\n        n", "argmin()))\n        n", "D6"),
        ("Model.finish", "-self.block_size:", ":self.block_size", "D9"),
        ("Model.finish", ARGMAX, "argmin(-1, keepdim=True)", "D6"),
        ("Model.write.sampling", "/ temperature", "* temperature", "S1"),
        ("Speaker.say", "out[0, -1] ==", "out[0, 0] ==", "D4"),
    ],
)
def test_its_mistake_is_named(name, old, new, id, tmp_path):
    text = METHODS if "." in name else FUNCTIONS
    assert old in text
    assert ids(text.replace(old, new), tmp_path, name) == [id]


WITH_CACHES = [
    f"generate_{way}" for way in ("with_cache", "with_objects", "by_places", "with_a_flag", "from_an_empty_cache")
]


@pytest.mark.parametrize("name", WITH_CACHES)
def test_what_gives_its_model_the_new_words_alone_is_judged(name, tmp_path):
    """And the cache of those before: what the model has given, objects of its own, or how many there are.

    Or that it keeps one.
    """
    assert ids(CACHED, tmp_path, name) == []
    assert ids(CACHED.replace("argmax", "argmin"), tmp_path, name) == ["D6"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("generate_with_cache", "logits, cache = model(new, cache)", "logits, _ = model(new, cache)"),
        ("generate_with_objects", "logits = model(new, kv_cache=caches)", "logits = model(new)"),
        ("generate_by_places", "model(tokens[:, begin:end], begin)", "model(tokens[:, begin:end])"),
    ],
)
def test_what_forgets_its_cache_is_named(name, old, new, tmp_path):
    assert old in CACHED
    assert ids(CACHED.replace(old, new), tmp_path, name) == ["D11"]


@pytest.mark.parametrize("name", ["predict_labels", "evaluate", "fit"])
def test_what_goes_through_data_writes_nothing(name, tmp_path):
    assert ids(FUNCTIONS, tmp_path, name) is None
