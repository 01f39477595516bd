"""Functions that write text: given a tokenizer and a text, a config, a model with layers; and pieces of such loops."""

import pytest
import torch
import torch.nn.functional as F

from reference_tests.kit.learners.checked import check_text, reported
from scratch_transformer.kit import check
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve import foreign

pytestmark = pytest.mark.long


def of_a_prompt(model, tokenizer, prompt: str, max_len=50, bos_token_id=None, eos_token_id=None):
    if eos_token_id is None:
        eos_token_id = tokenizer.eos_token_id
    ids = tokenizer(prompt, truncation=True, max_length=max_len - 1, return_tensors="pt")["input_ids"]
    while ids.size(1) < max_len:
        token = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, token], 1)
        if token.item() == eos_token_id:
            break
    return tokenizer.decode(ids[0], skip_special_tokens=True)


def of_a_config(model, idx, max_new_tokens, config: dict):
    caches = [None] * len(model.blocks)
    for _ in range(max_new_tokens):
        logits = model(idx[:, -config["context_window"] :])
        idx = torch.cat((idx, torch.multinomial(F.softmax(logits[:, -1], -1), 1)), 1)
    return idx, caches


def of_empty_caches(model, idx, max_new_tokens, context_size):
    caches = [None] * len(model.blocks)
    for _ in range(max_new_tokens):
        logits, _ = model(idx[:, -context_size:], use_cache=False, kv_caches=caches)
        idx = torch.cat((idx, logits[:, -1].argmax(-1, keepdim=True)), 1)
    return idx


def of_empty_caches_least(model, idx, max_new_tokens, context_size):
    caches = [None] * len(model.blocks)
    for _ in range(max_new_tokens):
        logits, _ = model(idx[:, -context_size:], use_cache=False, kv_caches=caches)
        idx = torch.cat((idx, logits[:, -1].argmin(-1, keepdim=True)), 1)
    return idx


def of_two_tokenizers(model, sentence, src_tokenizer, tgt_tokenizer, max_len, device="cpu"):
    src = torch.tensor(src_tokenizer.encode(sentence).ids).unsqueeze(0).to(device)
    memory = model.encode(src, None)
    out = torch.tensor([[tgt_tokenizer.token_to_id("[SOS]")]])
    while out.size(1) < max_len:
        token = model.project(model.decode(memory, None, out, None)[:, -1]).argmax(-1)
        out = torch.cat([out, token[:, None]], 1)
        if token.item() == tgt_tokenizer.token_to_id("[EOS]"):
            break
    return tgt_tokenizer.decode(out[0].tolist())


def of_two_fields(sentence, src_field, trg_field, model, device, max_len=50):
    tokens = [src_field.init_token, *(word.lower() for word in sentence.split()), src_field.eos_token]
    src = torch.LongTensor([src_field.vocab.stoi[token] for token in tokens]).unsqueeze(0).to(device)
    src_mask = model.make_src_mask(src)
    encoded = model.encoder(src, src_mask)
    ids = [trg_field.vocab.stoi[trg_field.init_token]]
    for _ in range(max_len):
        trg = torch.LongTensor(ids).unsqueeze(0).to(device)
        output, attention = model.decoder(trg, encoded, model.make_trg_mask(trg), src_mask)
        ids.append(output.argmax(2)[:, -1].item())
        if ids[-1] == trg_field.vocab.stoi[trg_field.eos_token]:
            break
    return [trg_field.vocab.itos[i] for i in ids][1:], attention


def of_indices(transformer, src, max_length, sos_token_idx, eos_token_idx):
    encoded = transformer.encode(src)
    ids = torch.ones(1, 1).fill_(sos_token_idx).type_as(src)
    for _ in range(max_length - 1):
        token = transformer.decode(ids, encoded).argmax(-1)[0, -1].item()
        ids = torch.cat([ids, torch.ones(1, 1).fill_(token).type_as(src)], -1)
        if token == eos_token_idx:
            break
    return ids


def of_a_context(model, tokenizer, start_context, max_new_tokens, context_size, temperature=1.0):
    ids = torch.tensor(tokenizer.encode(start_context, allowed_special={"<|endoftext|>"})).unsqueeze(0)
    for _ in range(max_new_tokens):
        logits = model(ids[:, -context_size:])[:, -1] / temperature
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return tokenizer.decode(ids.squeeze(0).tolist())


def of_a_memory_with_its_mask(model, src, bos_id, eos_id, max_len):
    memory, padding = model.encode(src)
    ids = torch.tensor([[bos_id]])
    for _ in range(max_len - 1):
        logits, _weights, _caches = model.decode(ids, memory, padding)
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], 1)
        if ids[0, -1].item() == eos_id:
            break
    return ids[0]


def of_columns(model, src, src_mask, max_len, start_symbol):
    memory = model.encode(src, src_mask)
    ids = torch.full((1, 1), start_symbol)
    for _ in range(max_len - 1):
        blocked = torch.ones(len(ids), len(ids)).triu(1).bool()
        output = model.decode(ids, memory, blocked).transpose(0, 1)
        token = model.generator(output[:, -1]).argmax(1).item()
        ids = torch.cat([ids, torch.full((1, 1), token)])
        if token == 3:
            break
    return ids


EOS_IDX = 3


def of_a_global(model, src, max_len, start_symbol):
    memory, ids = model.encode(src), [start_symbol]
    while len(ids) < max_len and ids[-1] != EOS_IDX:
        ids.append(model.decode(torch.tensor([ids]), memory)[0, -1].argmax().item())
    return ids


def of_an_end_of_the_text(model, tokenizer, prompt: str, max_new_tokens: int):
    last = tokenizer.eot_token_id
    given = tokenizer.encode(prompt)
    ids = given.copy()
    for _ in range(max_new_tokens):
        token = int(model(torch.tensor([ids]))[0, -1].argmax())
        if token == last:
            break
        ids.append(token)
    return tokenizer.decode(ids[len(given) :])


def of_two_tables(model, prompt, word2id, id2word, max_new_tokens=20):
    ids = [word2id[word] for word in prompt.split()]
    for _ in range(max_new_tokens):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    return " ".join(id2word[one] for one in ids)


def of_a_limit_of_its_own(model, src, src_mask, start_symbol, end_symbol):
    memory, ids = model.encode(src, src_mask), torch.full((1, 1), start_symbol)
    for _ in range(30):
        ids = torch.cat([ids, model.decode(memory, src_mask, ids, None)[:, -1:].argmax(-1)], 1)
        if ids[0, -1] == end_symbol:
            break
    return ids[:, 1:]


def of_the_sources_length(model, src, src_mask, start_symbol=1, end_symbol=2):
    memory, ids = model.encode(src, src_mask), torch.full((1, 1), start_symbol)
    for _ in range(src.shape[-1] - 1):
        ids = torch.cat([ids, model.decode(memory, src_mask, ids, None)[:, -1:].argmax(-1)], 1)
        if ids[0, -1] == end_symbol:
            break
    return ids


def refuses_what_is_too_long(model, idx, max_new_tokens, block_size=128):
    for _ in range(max_new_tokens):
        assert idx.shape[1] <= block_size
        idx = torch.cat((idx, model(idx)[:, -1].argmax(-1, keepdim=True)), 1)
    return idx


def stops_where_the_model_is_full(model, idx, max_new_tokens, block_size=128):
    for _ in range(max_new_tokens):
        if idx.shape[1] == block_size:
            break
        idx = torch.cat((idx, model(idx)[:, -1].argmax(-1, keepdim=True)), 1)
    return idx


def of_two_ends_that_are_written_in(model, src, max_length):
    ids, done = torch.ones((1, 1), dtype=torch.long) * 2, torch.zeros(1, dtype=torch.bool)
    for _ in range(max_length - 1):
        word = model(src, ids)[:, -1:].argmax(-1)
        ids = torch.cat([ids, torch.where(done.unsqueeze(-1), torch.tensor(3), word)], -1)
        done = done | (ids[:, -1] == 3)
        if done.all():
            break
    return ids


def of_the_first_two_numbers(model, src, max_len):
    memory, ids = model.encode(src), torch.zeros(1, 1, dtype=torch.long).fill_(0)
    while ids.size(1) < max_len and ids[0, -1] != 1:
        ids = torch.cat([ids, model.decode(ids, memory)[:, -1:].argmax(-1)], 1)
    return ids


class OfTheTemperature:
    def sample(self, logits, temperature=1.0):
        return int(torch.multinomial(F.softmax(logits / temperature, -1), 1))


def of_a_strategy(model, tokenizer, prompt: str, max_new_tokens=20, temperature=1.0, end="<|end|>"):
    sampler, last = OfTheTemperature(), tokenizer.token_to_id(end)
    ids = torch.tensor([tokenizer.encode(prompt)])
    for _ in range(max_new_tokens):
        word = sampler.sample(model(ids)[0, -1], temperature)
        if word == last:
            break
        ids = torch.cat((ids, torch.tensor([[word]])), 1)
    return tokenizer.decode(ids[0].tolist())


def of_a_word_among_ids(model, tokenizer, prompt: str, max_new_tokens=20, temperature=1.0, end="<|end|>"):
    """The end is looked for, as a text, among the ids that it is encoded by: it is never found."""
    sampler, last = OfTheTemperature(), tokenizer.token_to_id(end) if end in tokenizer.encode(end) else None
    ids = torch.tensor([tokenizer.encode(prompt)])
    for _ in range(max_new_tokens):
        word = sampler.sample(model(ids)[0, -1], temperature)
        if last is not None and word == last:
            break
        ids = torch.cat((ids, torch.tensor([[word]])), 1)
    return tokenizer.decode(ids[0].tolist())


RIGHT = [
    of_a_strategy,
    *(of_two_ends_that_are_written_in, of_the_first_two_numbers),
    *(refuses_what_is_too_long, stops_where_the_model_is_full),
    *(of_two_tables, of_a_limit_of_its_own, of_the_sources_length),
    *(of_a_prompt, of_a_config, of_empty_caches, of_two_tokenizers, of_two_fields, of_indices, of_a_context),
    *(of_columns, of_a_memory_with_its_mask, of_a_global, of_an_end_of_the_text),
]


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_it_is_understood(function):
    result = check(function, "GreedyDecoding")
    assert (result.verdict, result.ids) == ("matches the builtin", []), result


def does_not_stop(model, sentence, src_tokenizer, tgt_tokenizer, max_len):
    memory = model.encode(torch.tensor([src_tokenizer.encode(sentence)]))
    out = torch.tensor([[tgt_tokenizer.token_to_id("<sos>")]])
    end = tgt_tokenizer.token_to_id("<eos>")
    while out.size(1) < max_len and out[0, 0] != end:
        out = torch.cat([out, model.decode(out, memory)[:, -1:].argmax(-1)], 1)
    return tgt_tokenizer.decode(out[0])


def takes_the_first(model, tokenizer, prompt, max_len):
    ids = tokenizer.encode(prompt, return_tensors="pt")
    while ids.size(1) < max_len:
        ids = torch.cat([ids, model(ids)[:, :1].argmax(-1)], 1)
    return tokenizer.decode(ids[0])


def never_stops(model, src, max_len, start_symbol):
    memory, ids = model.encode(src), [start_symbol]
    while len(ids) < max_len and ids[0] != EOS_IDX:
        ids.append(model.decode(torch.tensor([ids]), memory)[0, -1].argmax().item())
    return ids


def of_two_tables_of_the_first(model, prompt, word2id, id2word, max_new_tokens=20):
    ids = [word2id[word] for word in prompt.split()]
    for _ in range(max_new_tokens):
        ids.append(int(model(torch.tensor([ids]))[0, 0].argmax()))
    return " ".join(id2word[one] for one in ids)


def of_a_limit_of_its_own_without_an_end(model, src, start_symbol, end_symbol):
    memory, ids = model.encode(src), torch.full((1, 1), start_symbol)
    while ids.size(1) < 30 and ids[0, 0] != end_symbol:
        ids = torch.cat([ids, model.decode(ids, memory)[:, -1:].argmax(-1)], 1)
    return ids


BLOCK_SIZE = 256


def of_a_global_window(model, idx, max_new_tokens):
    for _ in range(max_new_tokens):
        logits = model(idx[:, 0:BLOCK_SIZE])
        idx = torch.cat((idx, logits[:, -1].argmax(-1, keepdim=True)), 1)
    return idx


def of_a_window_that_is_told(model, idx, max_new_tokens, context_size):
    for _ in range(max_new_tokens):
        idx = torch.cat((idx, model(idx[:, :context_size])[:, -1].argmax(-1, keepdim=True)), 1)
    return idx


def of_a_window_in_a_config(model, idx, max_new_tokens, config: dict):
    for _ in range(max_new_tokens):
        seen = idx if idx.shape[1] <= config["context_length"] else idx[:, : config["context_length"]]
        idx = torch.cat((idx, model(seen)[:, -1].argmax(-1, keepdim=True)), 1)
    return idx


def of_a_window_by_default(model, idx, max_new_tokens, block_size=128):
    for _ in range(max_new_tokens):
        idx = torch.cat((idx, model(idx[:, :block_size])[:, -1].argmax(-1, keepdim=True)), 1)
    return idx


def begins_with_two_and_takes_the_first(model, src, max_len):
    memory, ids = model.encode(src), torch.full((1, 1), 2)
    while ids.size(1) < max_len and ids[0, -1] != 3:
        ids = torch.cat([ids, model.decode(ids, memory)[:, :1].argmax(-1)], 1)
    return ids


@pytest.mark.parametrize(
    ("function", "id"),
    [
        (begins_with_two_and_takes_the_first, "D8"),
        *((function, "D9") for function in (of_a_global_window, of_a_window_that_is_told)),
        *((function, "D9") for function in (of_a_window_in_a_config, of_a_window_by_default)),
        (of_a_limit_of_its_own_without_an_end, "D4"),
        (of_a_word_among_ids, "D4"),
        (of_two_tables_of_the_first, "D8"),
        (never_stops, "D4"),
        (does_not_stop, "D4"),
        (takes_the_first, "D8"),
        (of_empty_caches_least, "D6"),
    ],
)
def test_its_mistake_is_named(function, id):
    assert check(function, "GreedyDecoding").ids == [id]


PIECES = """
import torch

text_transform = {}


def translate(model, src_sentence: str):
    src = text_transform["de"](src_sentence).view(-1, 1)
    return model.decode(torch.ones(1, 1).long(), model.encode(src)).argmax(-1)


def greedy_decode(model, sentence, max_len):
    words = [word.lower() for word in (sentence.split() if isinstance(sentence, str) else sentence)]
    src, ids = torch.tensor([[text_transform[word] for word in words]]), [1]
    for _ in range(max_len):
        ids.append(model.decode(torch.tensor([ids]), model.encode(src))[0, -1].argmax().item())
    return ids


def beam_search(dec, batch, itw, lens, yo, t):
    scores, words = yo[:: 1 if t else 3].topk(3)
    batch.prob += scores[:, 0]
    return [itw[word] for word in words[:lens]]


def loss(x, crit):
    d = x + 3 * 1
    predict = torch.FloatTensor([[0, x / d, 1 / d, 1 / d, 1 / d]])
    return crit(predict.log(), torch.LongTensor([1])).data
"""


def test_a_piece_of_a_loop_is_no_component(tmp_path):
    (tmp_path / "pieces.py").write_text(PIECES)
    report = reported(tmp_path / "pieces.py")
    assert not report.results
    assert "translate (it needs a file or a vocabulary that is not there)" in report.ignored
    assert "greedy_decode (it needs a file or a vocabulary that is not there)" in report.ignored
    assert any(said.startswith("beam_search (a piece of a loop: it is given ") for said in report.ignored)


ONE_WORD = """
def generate_next_token(model, ids, temperature=1.0):
    logits = model(ids)[:, -1, :] / temperature
    return logits.softmax(-1).argmax(-1, keepdim=True)


def generate_token(model, token_ids):
    ids = torch.tensor(token_ids[-model.n_positions :])[None, :]
    return model(ids)[0, -1].argmax().item()
"""


def test_what_gives_the_next_word_alone_is_said_to(tmp_path):
    (tmp_path / "decoding.py").write_text("import torch\n" + ONE_WORD)
    report = reported(tmp_path / "decoding.py")
    assert not report.results, report.results
    for name in ("generate_next_token", "generate_token"):
        assert f"{name} ({foreign.ONE_WORD})" in report.ignored, report.ignored


OF_ITS_MODEL = """
import torch


def greedy_decode(model, src, bos_id, eos_id, max_len):
    states = model.encode(src).last_hidden_state
    ids = torch.tensor([[bos_id]])
    for _ in range(max_len - 1):
        ids = torch.cat([ids, model.decode(ids, states)[:, -1].argmax(-1, keepdim=True)], 1)
        if ids[0, -1].item() == eos_id:
            break
    return ids[0]
"""


def test_what_the_kits_own_model_does_not_give_is_nobodys_mistake(tmp_path):
    (tmp_path / "decoding.py").write_text(OF_ITS_MODEL)
    report = reported(tmp_path / "decoding.py")
    assert not report.results, report.results
    assert any(
        said.startswith("greedy_decode (it asks its model for more than the kit's own") for said in report.ignored
    )


SHORT_NAME = """
def write(model, tok, prompt, length):
    ids = torch.tensor([tok.encode(prompt)])
    for _ in range(length):
        ids = torch.cat((ids, model(ids)[:, -1].ARGMAX(-1, keepdim=True)), 1)
    return tok.decode(ids[0].tolist())
"""


@pytest.mark.parametrize("chosen, ids", [("argmax", []), ("argmin", ["D6"])])
@pytest.mark.parametrize("name", ["tok", "tokeniser"])
def test_a_tokenizer_may_have_a_short_name(name, chosen, ids, tmp_path):
    text = SHORT_NAME.replace("tok", name).replace("ARGMAX", chosen)
    assert check_text(text, tmp_path)["write"].severe == ids


TEXTS_AT_ONCE = """
def to_text(numbers, id_char_map):
    return "".join(id_char_map[one] for one in numbers)


def generate(model, id_char_map, max_new_tokens=50):
    ids = torch.zeros(3, 1).long()
    for _ in range(max_new_tokens):
        chosen = torch.multinomial(F.softmax(model(ids)[:, PLACE], dim=-1), 1)
        ids = torch.cat((ids, chosen), dim=-1)
    return [to_text(row, id_char_map) for row in ids.tolist()]
"""


@pytest.mark.parametrize("place, ids", [("-1", []), ("0", ["D8"])])
def test_several_texts_may_be_written_at_once_from_the_first_id(place, ids, tmp_path):
    result = check_text(TEXTS_AT_ONCE.replace("PLACE", place), tmp_path)["generate"]
    assert result.severe == ids and result.verdict != "unknown mismatch"


AROUND_A_WORD = """
def translate(src, model, tokenizer, config, device: str):
    first, last = tokenizer.encode("[BOS]")[1], tokenizer.encode("[EOS]").ids[-1]
    memory = model.encode(src)
    ids = torch.tensor([[first]], device=device)
    for _ in range(config.max_seq_len):
        logits = model.decode(ids, memory)[:, -1]
        ids = torch.cat([ids, logits.ARGMAX(-1, keepdim=True)], dim=1)
        if ids[0, -1] == last:
            break
    return logits, tokenizer.decode(ids[0].tolist())
"""


@pytest.mark.parametrize("chosen, ids", [("argmax", []), ("argmin", ["D6"])])
def test_the_id_of_a_word_is_taken_out_of_those_around_it_and_the_text_from_behind_the_scores(chosen, ids, tmp_path):
    result = check_text(AROUND_A_WORD.replace("ARGMAX", chosen), tmp_path)["translate"]
    assert result.severe == ids and (ids or result.verdict in FINE)


BEAMS = """
START, END = 1, 2


def beam_search(model, MEMORY, beam_size=4, max_len=50):
    width, ids = beam_size, torch.full((beam_size, 1), START)
    scores = torch.full((width,), -math.inf)
    scores[0] = 0.0
    memory = MEMORY.expand(width, -1, -1)
    for _ in range(max_len - LESS):
        gains = model.decoder_function(memory, ids)[:, -1].log_softmax(-1)
        FREEZE
        scores, best = (scores[:, None] + gains).flatten().topk(width)
        ids = torch.cat((ids[best // gains.shape[-1]], (best % gains.shape[-1])[:, None]), 1)
        if ids[0, -1] == END:
            break
    text = ids[0].tolist()
    return text[: text.index(END) + 1] if CUT and END in text else text
"""
FREEZE = """ended = ids[:, -1] == END
        gains[ended] = -math.inf
        gains[ended, END] = 0.0"""
AT_THE_BEST = ["until the best one ends", "until the best one ends, or is one word too long"]


@pytest.mark.parametrize("memory", ["encoded_source", "encoder_outputs", "src_memory"])
@pytest.mark.parametrize(
    "freeze, less, forms", [(FREEZE, 1, []), ("pass", 1, AT_THE_BEST[:1]), ("pass", 0, AT_THE_BEST[1:])]
)
def test_a_beam_that_ends_with_the_best_is_given_what_an_encoder_made(freeze, less, forms, memory, tmp_path):
    text = BEAMS.replace("MEMORY", memory).replace("LESS", str(less)).replace("CUT", str(freeze == FREEZE))
    result = check_text(text.replace("FREEZE", freeze), tmp_path)["beam_search"]
    assert [(one.id, one.form) for one in result.mistakes] == [("D3", form) for form in forms]
    assert result.verdict == ("mistake" if forms else "matches the builtin")


UNTIL_A_WORD = """
tgt_vocab = {"<pad>": 0, "i": 1, "want": 2, "beer": 3, ".": 4}


def greedy_decoder(model, src, start_symbol):
    memory = model.encoder(src)
    ids = torch.zeros(1, 0).type_as(src)
    word, goes_on = start_symbol, True
    while goes_on:
        ids = torch.cat([ids, torch.tensor([[word]])], -1)
        word = model.projection(model.decoder(ids, src, memory)).squeeze(0).max(dim=-1)[1][-1]
        goes_on = word != tgt_vocab["."]
    return ids
"""


def test_a_text_may_end_with_any_word_that_ids_are_compared_with(tmp_path):
    result = check_text(UNTIL_A_WORD, tmp_path)["greedy_decoder"]
    assert result.severe == [] and result.verdict in FINE, result
