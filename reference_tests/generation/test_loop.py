"""Generation: what the model itself would say, token by token, for texts of any lengths side by side."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from reference_tests.small_language_model import CONFIGS, small_model
from scratch_transformer import nn
from scratch_transformer.generation import affine, generate, loop, reading, stream
from scratch_transformer.generation.decoders import Cached, WholeTexts
from scratch_transformer.generation.newest import Newest
from scratch_transformer.language_model import Config, LanguageModel

PROMPTS = [[7, 3, 9], [5], [1, 2, 30, 4, 5, 6]]
NEW = 12
every_config = pytest.mark.parametrize("name", CONFIGS)
DRAWS = {"temperature": 1.3, "top_k": 30, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.2}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def likeliest(model, prompt, count):
    """By the definition: the whole text through the model, the largest logit, again and again."""
    text = list(prompt)
    for _ in range(count):
        text.append(model(torch.tensor([text]))[0, -1].argmax().item())
    return text[len(prompt) :]


@every_config
@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])
def test_the_likeliest_tokens_follow(name, cache):
    model = small_model(name)
    found = generate(model, PROMPTS, NEW, cache=cache)
    assert found == [likeliest(model, prompt, NEW) for prompt in PROMPTS]
    assert len(set(map(tuple, found))) == 3


@every_config
@torch.no_grad()
def test_all_decoders_give_the_models_logits(name):
    """Side by side, then without the second text; three tokens beyond the prompts."""
    model = small_model(name)
    ids, mask = loop._padded(PROMPTS, torch.device("cpu"))
    decoders = [kind(model, mask, 9) for kind in (WholeTexts, Cached, Newest)]
    for t in range(4):
        rows = torch.tensor([0, 2]) if t >= 2 else torch.tensor([0, 1, 2])
        if t == 2:
            for decoder in decoders:
                decoder.keep(rows)
        given = ids if t == 0 else torch.randint(41, (len(rows), 1))
        whole, cached, newest = (decoder.step(given) for decoder in decoders)
        torch.testing.assert_close(cached, whole, rtol=0, atol=1e-12 * whole.norm().item())
        torch.testing.assert_close(newest, whole, rtol=0, atol=1e-12 * whole.norm().item())


@every_config
@torch.no_grad()
def test_without_padding_too(name):
    model, ids = small_model(name), torch.randint(41, (2, 9))
    newest = Newest(model, torch.ones(2, 4).bool(), 9)
    found = [newest.step(ids[:, :4])] + [newest.step(ids[:, t : t + 1]) for t in range(4, 9)]
    expected = model(ids)[:, 3:].unbind(1)
    for ours, logits in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, logits, rtol=0, atol=1e-12 * logits.norm().item())


@pytest.mark.parametrize("small", [0, reading.SMALL], ids=["maps apart", "maps merged"])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 3, affine.FEW + 1])
@pytest.mark.parametrize("name", ["llama2", "qwen3", "gpt2", "gpt2-untied-exact-gelu"])
def test_large_matrices_read_where_they_are_give_the_models_logits(name, rows, threads, small, monkeypatch):
    """In shares of their rows, also where these cannot be equal (41 tokens)."""
    monkeypatch.setattr(affine, "CACHED", 0)
    monkeypatch.setattr(reading, "SMALL", small)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    model, ids = small_model(name), torch.randint(41, (rows, 7))
    newest = Newest(model, torch.ones(rows, 4).bool(), 9)
    with torch.inference_mode():
        for end in (4, 5, 6, 7):
            logits = model(ids[:, :end])[:, -1]
            ours = newest.step(ids[:, :4] if end == 4 else ids[:, end - 1 : end])
            torch.testing.assert_close(ours, logits, rtol=0, atol=1e-12 * logits.norm().item())


def test_models_of_full_precision_take_the_short_way():
    assert loop._decoder(small_model("llama2")) is loop._decoder(small_model("gpt2", torch.float32)) is Newest
    assert loop._decoder(small_model("llama2", torch.bfloat16)) is Cached


def all_changed(model, by):
    with torch.no_grad():
        for parameter in model.parameters():
            by(parameter)


def stepped(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.tensor([PROMPTS[2]])).square().sum().backward()
    optimizer.step()


CHANGES = {
    "in place": lambda model: all_changed(model, lambda p: p.mul_(-1.5)),
    "in place, unseen by autograd": lambda model: all_changed(model, lambda p: p.data.mul_(-1.5)),
    "a step": stepped,
    "load_state_dict": lambda model: model.load_state_dict({name: -x for name, x in model.state_dict().items()}),
    "another dtype": lambda model: model.float(),
    "and back": lambda model: model.float().double(),
}


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_becomes_of_the_weights_between_two_texts_counts(change, large, monkeypatch):
    """Nothing is kept from one call to the next."""
    if large:
        monkeypatch.setattr(affine, "CACHED", 0)
    model = small_model("gpt2")
    before = generate(model, PROMPTS, NEW)
    CHANGES[change](model)
    after = generate(model, PROMPTS, NEW)
    assert after == [likeliest(model, prompt, NEW) for prompt in PROMPTS]
    assert (after == before) == (change in ("another dtype", "and back"))


def test_memory_goes_with_the_model():
    model = small_model("llama2")
    weights = [weakref.ref(parameter) for parameter in model.parameters()]
    generate(model, PROMPTS, NEW)
    del model
    gc.collect()
    assert not any(weight() is not None for weight in weights)


class Louder(nn.Linear):
    def forward(self, x):
        return 3 * super().forward(x)


def test_a_part_that_somebody_has_changed_or_watches_counts():
    model = small_model("llama2")
    before = generate(model, PROMPTS, NEW)
    own = model.blocks[1].feed_forward.up_proj
    model.blocks[1].feed_forward.up_proj = Louder(24, 34, bias=False).double()
    model.blocks[1].feed_forward.up_proj.weight = own.weight
    assert generate(model, PROMPTS, NEW) == [likeliest(model, prompt, NEW) for prompt in PROMPTS] != before
    model.blocks[1].feed_forward.up_proj = own
    assert generate(model, PROMPTS, NEW) == before
    seen = []
    model.blocks[0].register_forward_hook(lambda module, inputs, output: seen.append(output.shape[1]))
    assert generate(model, PROMPTS, NEW) == before
    assert seen == [6] + [1] * (NEW - 1)


def test_heads_of_an_odd_width():
    model = LanguageModel(Config.gpt2(vocab_size=41, max_length=30, d_model=15, num_layers=1, num_heads=3)).double()
    assert generate(model, PROMPTS, NEW) == [likeliest(model, prompt, NEW) for prompt in PROMPTS]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_generates(dtype):
    model = small_model("llama2", dtype)
    assert [len(text) for text in generate(model, PROMPTS, NEW, **DRAWS, generator=seeded())] == [NEW] * 3


@pytest.mark.parametrize("options", [{}, DRAWS], ids=["greedy", "drawn"])
def test_a_text_ends_with_its_first_stop_token_whatever_the_others_do(options):
    model = small_model("llama2")
    whole = generate(model, PROMPTS, NEW, **options, generator=seeded())
    stop = {whole[0][2], whole[1][5]}
    ends = [next((i for i, token in enumerate(text) if token in stop), NEW - 1) for text in whole]
    found = generate(model, PROMPTS, NEW, **options, stop=stop, generator=seeded())
    assert found == [text[: end + 1] for text, end in zip(whole, ends, strict=True)]
    assert min(ends) < 3


@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])
def test_the_same_seed_draws_the_same(cache):
    model = small_model("qwen3")
    draw = lambda seed: generate(model, PROMPTS, NEW, **DRAWS, generator=seeded(seed), cache=cache)  # noqa: E731
    assert draw(1) == draw(1) != draw(2)
    assert draw(1) == generate(model, PROMPTS, NEW, **DRAWS, generator=seeded(1))


def test_with_nothing_left_to_chance_a_draw_is_the_likeliest():
    model = small_model("llama2")
    for options in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}, {"temperature": 1e-9}):
        assert generate(model, PROMPTS, NEW, **{"temperature": 1.0, **options}) == generate(model, PROMPTS, NEW)


def test_first_tokens_are_drawn_with_their_probabilities():
    model, draws = small_model("llama2"), 4000
    with torch.no_grad():
        p = model(torch.tensor([PROMPTS[0]]))[0, -1].softmax(-1)
    found = generate(model, [PROMPTS[0]] * draws, 1, temperature=1.0, generator=seeded())
    frequencies = torch.bincount(torch.tensor(found)[:, 0], minlength=41) / draws
    assert ((frequencies - p).abs() <= 5 * (p * (1 - p) / draws).sqrt() + 1e-3).all()


def test_a_great_penalty_repeats_nothing():
    """Neither a token of the prompt nor one of the text; the zeros that pad the shorter prompts are no tokens."""
    model = small_model("llama2")
    for prompt, text in zip(PROMPTS, generate(model, PROMPTS, 15, repetition_penalty=1e9), strict=True):
        assert len({*prompt, *text}) == len(prompt) + 15
    with_zero = [0 in text for text in generate(model, [[i] for i in range(1, 41)], 20, repetition_penalty=1e9)]
    assert any(with_zero)


def test_a_stream_tells_each_step():
    model = small_model("llama2")
    whole = generate(model, PROMPTS, NEW)
    steps = list(stream(model, PROMPTS, NEW, stop={whole[1][4]}))
    ended = {next((i for i, token in enumerate(text) if token == whole[1][4]), NEW) for text in whole}
    assert len(steps) == min(NEW, max(ended) + 1)
    assert steps[0] == [text[0] for text in whole]
    for i, text in enumerate(generate(model, PROMPTS, NEW, stop={whole[1][4]})):
        assert [step[i] for step in steps if step[i] is not None] == text


def test_the_model_is_left_as_it_was():
    """Also while the caller has a token: gradients are on. In between the model is in evaluation mode."""
    model = small_model("gpt2").train()
    model.blocks[1].eval()
    before = [module.training for module in model.modules()]
    tokens = stream(model, PROMPTS, NEW)
    assert [module.training for module in model.modules()] == before
    next(tokens)
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled() and not model.training
    tokens.close()
    assert [module.training for module in model.modules()] == before
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])
def test_nothing_to_do(cache):
    model = small_model("llama2")
    assert generate(model, [], 5, cache=cache) == []
    assert generate(model, PROMPTS, 0, cache=cache) == [[], [], []]
    assert generate(model, torch.tensor([[1, 2], [3, 4]]), 1, cache=cache) == generate(model, [[1, 2], [3, 4]], 1)


def test_up_to_the_last_position():
    model = small_model("gpt2")
    assert len(generate(model, [[1] * 10], 20)[0]) == 20
    with pytest.raises(ValueError, match="a prompt of 10 tokens and max_new_tokens=21 need .* max_length=30"):
        stream(model, [[1] * 10], 21)
    with pytest.raises(ValueError, match="max_new_tokens=-1"):
        stream(model, [[1]], -1)


def test_what_is_no_prompt_is_refused():
    model = small_model("llama2")
    with pytest.raises(ValueError, match="prompt 1 is empty; expected at least one token in each"):
        generate(model, [[1], []], 5)
    with pytest.raises(IndexError, match=r"ids must be in \[0, 41\)"):
        generate(model, [[1], [41]], 5)
    with pytest.raises(ValueError, match="top_p must be above 0"):
        stream(model, PROMPTS, 5, top_p=0.0)
    with pytest.raises(ValueError, match=r"temperature must be a finite number, 0 \(the likeliest\) or more, is -1"):
        stream(model, PROMPTS, 5, temperature=-1.0)


def test_a_model_of_no_finite_numbers_is_refused():
    model = small_model("llama2")
    with torch.no_grad():
        model.norm.weight[0] = float("nan")
    with pytest.raises(ValueError, match="computes no finite numbers"):
        generate(model, PROMPTS, 2)
