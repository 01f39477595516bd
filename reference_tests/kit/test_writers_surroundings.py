"""What writes text with a tokenizer, a device or a model that its file makes elsewhere; that prints it, or yields it.

And one word that is drawn, without a loop, or of a text.
"""

import pytest

from reference_tests.kit.learners.checked import reported, written

pytestmark = pytest.mark.long

TEXT = """
chars = sorted("hello")
stoi = {c: i for i, c in enumerate(chars)}
itos = {i: c for c, i in stoi.items()}
encode = lambda text: [stoi[c] for c in text]
decode = lambda ids: "".join(itos[i] for i in ids)


def of_the_main_block(model, prompt, max_new_tokens):
    ids = torch.tensor([tokenizer.encode(prompt)]).to(device)
    for _ in range(max_new_tokens):
        ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return tokenizer.decode(ids[0].tolist())


def of_lambdas(model, start="h", max_new_tokens=100):
    ids = torch.tensor([encode(start)])
    for _ in range(max_new_tokens):
        ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return decode(ids[0].tolist())


def of_tables(model, start, length):
    ids = [stoi[c] for c in start]
    for _ in range(length):
        ids.append(model(torch.tensor([ids]))[0, -1].argmax().item())
    return "".join(itos[i] for i in ids)


def of_the_files_model(prompt, max_len=50):
    ids = torch.tensor([tokenizer.encode(prompt)])
    for _ in range(max_len):
        ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
        if ids[0, -1] == EOS_IDX:
            break
    return tokenizer.decode(ids[0].tolist())


def printed(model, prompt, max_new_tokens):
    ids = torch.tensor([tokenizer.encode(prompt)])
    for _ in range(max_new_tokens):
        ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
    print("It says:", tokenizer.decode(ids[0].tolist()))


def yielded(model, ids, max_new_tokens):
    for _ in range(max_new_tokens):
        word = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, word], 1)
        yield word


def generate_by_steps(model, start, max_new_tokens):
    def grown(ids):
        logits, _ = model(ids)
        return torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], 1)

    ids = start
    for _ in range(max_new_tokens):
        ids = grown(ids)
    return ids


def generate_with_steps(model, ids, max_new_tokens):
    for step in range(max_new_tokens):
        ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
        print("step", step)


def next_word(model, ids, temperature=1.0, top_k=None):
    logits = model(ids)[:, -1] / temperature
    if top_k is not None:
        logits[logits < logits.topk(top_k).values[:, [-1]]] = -math.inf
    return torch.multinomial(logits.softmax(-1), 1)


def drawn_of_a_text(model, tokenizer, prompt, max_new_tokens, temperature=1.0):
    ids = torch.tensor([tokenizer.encode(prompt)])
    for _ in range(max_new_tokens):
        logits = model(ids)[:, -1] / temperature
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
    return tokenizer.decode(ids[0].tolist())


if __name__ == "__main__":
    tokenizer, device = object(), "cpu"
"""
GREEDY = [
    "of_the_main_block",
    "of_lambdas",
    "of_tables",
    "of_the_files_model",
    "printed",
    "yielded",
    "generate_by_steps",
]
DRAWN = ["next_word.sampling", "drawn_of_a_text.sampling"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return reported(written(TEXT, tmp_path_factory.mktemp("writers")))


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory):
    text = TEXT.replace("argmax", "argmin").replace("/ temperature", "* temperature")
    return reported(written(text, tmp_path_factory.mktemp("writers")))


@pytest.mark.parametrize("name", [*GREEDY, *DRAWN])
def test_it_is_judged(name, report):
    assert {one.name: one.verdict for one in report.results}[name] == "matches the builtin"


@pytest.mark.parametrize(("name", "id"), [*((name, "D6") for name in GREEDY), *((name, "S1") for name in DRAWN)])
def test_its_mistake_is_named(name, id, mistaken):
    assert {one.name: one.ids for one in mistaken.results}[name] == [id]


def test_what_writes_with_the_files_model_has_its_end(tmp_path):
    text = TEXT.replace("ids[0, -1] == EOS_IDX", "ids[0, 0] == EOS_IDX")
    assert {one.name: one.ids for one in reported(written(text, tmp_path)).results}["of_the_files_model"] == ["D4"]


def test_what_prints_something_else_is_said_to_return_nothing(report):
    assert "generate_with_steps (it returns nothing)" in report.ignored


def test_what_draws_once_is_judged_as_that_alone(report):
    assert "next_word" not in [one.name for one in report.results]
    assert not any(said.startswith("next_word") for said in report.ignored)


def test_the_files_own_globals_are_there_afterwards():
    from scratch_transformer.kit.resolve.functions import surroundings

    namespace = {"tokenizer": 5}
    exec("def writes(model):\n    return tokenizer, device", namespace)
    with surroundings.replaced(namespace["writes"], {"tokenizer": 6, "device": "cpu"}):
        assert namespace["writes"](None) == (6, "cpu")
    assert namespace["tokenizer"] == 5 and "device" not in namespace


BEAMS = """
class Translator(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, src):
        return self.encoder(src), src != 0

    def decode(self, ids, memory, mask):
        return self.decoder(ids, memory, mask)

    def forward(self, src, tgt):
        return self.decode(tgt, *self.encode(src))

    def beam_search(self, src, max_len, bos_id, eos_id, beam_size=4):
        memory, mask = self.encode(src)
        memory, mask = memory.expand(beam_size, -1, -1), mask.expand(beam_size, -1)
        scores = torch.full((beam_size,), -math.inf)
        scores[0] = 0.0
        ids = torch.full((beam_size, 1), bos_id)
        for _ in range(max_len - 1):
            log_p = self.decode(ids, memory, mask)[:, -1].log_softmax(-1)
            ends = ids[:, -1] == eos_id
            log_p[ends] = -math.inf
            log_p[ends, eos_id] = 0.0
            scores, best = (scores[:, None] + log_p).flatten().topk(beam_size)
            ids = torch.cat([ids[best // log_p.shape[-1]], best[:, None] % log_p.shape[-1]], 1)
            if (ids[:, -1] == eos_id).all():
                break
        found = ids[scores.argmax()].tolist()
        return found[: found.index(eos_id) + 1] if eos_id in found else found
"""


@pytest.mark.parametrize(
    ("old", "new", "ids"), [("", "", []), ("full((beam_size,), -math.inf)", "zeros(beam_size)", ["D12"])]
)
def test_beams_side_by_side_are_judged(old, new, ids, tmp_path):
    found = {one.name: one for one in reported(written(BEAMS.replace(old, new) if old else BEAMS, tmp_path)).results}
    result = found["Translator.beam_search"]
    assert (result.verdict, result.ids) == ("mistake" if ids else "matches the builtin", ids)
    if ids:
        line = result.mistakes[0]
        assert "zeros(beam_size)" in line.shown
