"""What a reader does: types, steps, turns knobs, follows links, makes mistakes."""

import re

import pytest

CROSS = "#s=four+hundred+and+twenty-one&at=decoder.cross_attention.weights&layer=1&head=3&query=2"


def test_steps_by_keys_and_buttons_through_every_point(open_page):
    visit = open_page()
    visit.page.click("#begin")
    assert (visit.hash()["at"], visit.hash()["token"]) == ("src_embed.scaled", "1")
    assert visit.page.is_disabled("#back")
    titles, total = [visit.text("#title")], int(visit.text("#step").split()[3].rstrip(","))
    for number in range(2, total + 1):
        visit.page.keyboard.press("ArrowRight") if number % 2 else visit.page.click("#forth")
        assert visit.text("#step").startswith(f"step {number} of {total}, token 1 of")
        assert visit.text("#says")
        titles.append(visit.text("#title"))
    assert titles[-1] == "The next token"
    assert total > 60
    visit.page.keyboard.press("ArrowRight")  # and the next token's decoder
    assert (visit.hash()["at"], visit.hash()["token"]) == ("tgt_embed.scaled", "2")
    visit.page.keyboard.press("ArrowLeft")
    assert visit.hash()["at"] == "encoder.norm"
    assert visit.errors == []


def test_keys_for_tokens_and_heads(open_page):
    visit = open_page(CROSS)
    last = visit.tokens("target") - 1
    visit.page.keyboard.press("Shift+ArrowLeft")
    assert visit.hash()["token"] == str(last - 1)
    visit.page.keyboard.press("2")
    assert visit.hash()["head"] == "2"
    assert visit.page.get_attribute(".head:nth-child(2)", "aria-pressed") == "true"
    visit.page.focus("#sentence")
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("3")
    assert visit.hash()["at"] == "decoder.cross_attention.weights"
    assert visit.hash()["head"] == "2"


def test_a_link_leads_back_to_a_state(open_page):
    address = f"{CROSS}&padding=2&numbers=difference&temperature=1.5&scale=off"
    address += "&mistake=A2%3Aover+the+heads&off=encoder.0.self.2"
    visit = open_page(address)
    assert visit.hash() == dict(pair.split("=") for pair in address.removeprefix("#").split("&"))
    assert not visit.page.is_checked("#knob-scale")
    assert visit.page.input_value("#knob-form") == "over the heads"
    assert "1 head is switched off" in visit.page.text_content("#heads-off")
    assert "softmax over the wrong axis" in visit.page.text_content("#mistake")
    visit.page.evaluate("location.hash = '#layer=1&head=3'")
    assert visit.page.wait_for_function("location.hash.includes('at=decoder.cross_attention.weights&layer=1&head=3')")


def test_links_that_make_no_sense_lead_somewhere(open_page):
    address = "#s=&at=nowhere&layer=77&head=-1&token=x&mistake=Z9&off=a.b.c,encoder.9.self.0&temperature=nan"
    visit = open_page(f"{address}&padding=1e9")
    assert visit.hash()["s"] == "four+hundred+and+twenty-one"
    assert visit.hash()["at"] == "decoder.cross_attention.weights"
    assert "mistake" not in visit.hash() and "off" not in visit.hash()
    assert "write a sentence" in visit.text("#trouble")
    assert visit.errors == []


def test_back_goes_back(open_page):
    visit = open_page(CROSS)
    visit.page.keyboard.press("ArrowRight")
    assert visit.hash()["at"] == "decoder.cross_attention.heads"
    visit.page.go_back()
    visit.page.wait_for_function("document.getElementById('title').textContent === 'Scores become shares'")


def test_every_chip_of_the_diagram_leads_to_its_tensor(open_page):
    visit = open_page()
    for stack, layer in (("encoder", 1), ("decoder", 2)):
        visit.page.click(f".stack.{stack} .layer:has-text('Layer {layer}')")
        names = visit.page.eval_on_selector_all(f".stack.{stack} .chip", "all => all.map((chip) => chip.dataset.at)")
        assert len(names) > 15
        for name in names:
            if visit.page.query_selector(f'[data-at="{name}"]'):
                visit.page.dispatch_event(f'[data-at="{name}"]', "click")  # details are shown in their own box only
                assert visit.page.get_attribute("[aria-current=step].chip", "data-at") == name
                assert visit.page.is_visible("#numbers canvas")
    assert visit.errors == []


def test_the_map_is_read_by_pointer_and_by_keys(open_page):
    visit = open_page(CROSS)
    canvas = visit.page.locator("#numbers .heat canvas")
    canvas.hover(position={"x": 20, "y": 20})
    assert visit.text("#numbers .cell").startswith("‹start› → four: 0.")
    assert "PyTorch 0." in visit.text("#numbers .cell")
    visit.page.mouse.move(0, 0)
    canvas.focus()
    visit.page.keyboard.press("ArrowDown")
    visit.page.keyboard.press("ArrowRight")
    assert " → hundred: " in visit.text("#numbers .cell")
    assert visit.hash()["at"] == "decoder.cross_attention.weights"


def test_pytorchs_numbers_and_the_difference(open_page):
    visit = open_page(CROSS)
    assert "computes the same" in visit.text("#why")
    visit.page.click(".choice button:has-text('difference')")
    assert visit.hash()["numbers"] == "difference"
    visit.page.click("summary:has-text('table')")
    visit.page.wait_for_selector(".scroll td")
    cells = visit.page.eval_on_selector_all(".scroll td", "cells => cells.map((cell) => cell.textContent)")
    assert len(cells) == visit.tokens("source") * (visit.tokens("target") - 1)
    assert {cell for cell in cells if cell != "0.0000" and not re.search("10⁻[¹²][⁰¹²³⁴⁵⁶⁷⁸⁹]", cell)} == set()
    visit.translate("seven")
    assert "recorded for another sentence" in visit.text("#why")
    visit.page.click("text=Show that one")
    assert "computes the same" in visit.text("#why")


def test_a_choice_of_a_word_shows_where_it_looks(open_page):
    visit = open_page(CROSS.replace("&query=2", ""))
    visit.page.click(".lines .query >> nth=1")
    assert visit.hash()["query"] == "2"
    assert visit.page.get_attribute(".lines .query >> nth=1", "aria-pressed") == "true"
    assert " % to " in visit.text(".here")
    visit.page.press(".lines .query >> nth=1", "Enter")
    assert "query" not in visit.hash()


@pytest.mark.parametrize(("knob", "setting"), [("scale", "none"), ("mask", "ignored"), ("positions", "none")])
def test_what_is_left_out(knob, setting, open_page):
    visit = open_page(CROSS)
    visit.page.click("#whatif summary")
    visit.page.uncheck(f"#knob-{knob}")
    assert visit.hash()[knob] == "off"
    assert "away from torch.nn" in visit.text("#why") or "other tokens are read here" in visit.text("#why")
    visit.page.wait_for_selector("#still-right:has-text('still translated right')")
    visit.page.click("#reset")
    assert knob not in visit.hash()
    assert visit.page.is_checked(f"#knob-{knob}")
    assert "computes the same" in visit.text("#why")


def test_a_mistake_breaks_the_translation(open_page):
    visit = open_page(CROSS)
    right = visit.text("#answer")
    visit.page.click("#whatif summary")
    visit.page.select_option("#knob-mistake", "A13")
    assert visit.text("#answer") != right
    assert f"instead of “{right}”" in visit.text("#instead")
    assert "heads split by view alone" in visit.text("#mistake")
    visit.page.select_option("#knob-form", "every h-th feature")
    assert visit.hash()["mistake"] == "A13%3Aevery+h-th+feature"
    visit.page.select_option("#knob-mistake", "B14")
    visit.page.keyboard.press("Escape")
    visit.page.click("#diagram .sublayer .absent >> nth=0")
    assert "not computed" in visit.text("#numbers")
    visit.page.select_option("#knob-mistake", "")
    assert visit.text("#answer") == right
    assert visit.errors == []


def test_a_head_is_switched_off(open_page):
    visit = open_page(CROSS.replace("weights", "heads"))
    visit.page.click("#head-off")
    assert visit.hash()["off"] == "decoder.0.cross.2"
    visit.page.click("summary:has-text('table')")
    visit.page.wait_for_selector(".scroll td")
    cells = visit.page.eval_on_selector_all(".scroll td", "cells => cells.map((cell) => cell.textContent)")
    assert set(cells) == {"0.0000"}
    visit.page.click("#head-off")
    assert "off" not in visit.hash()


def test_temperature_and_chance(open_page):
    visit = open_page("#s=seven&at=probabilities")
    sharp = visit.text(".next tbody tr >> nth=0")
    visit.page.click("#whatif summary")
    visit.page.fill("#knob-temperature", "5")
    assert visit.text(".next tbody tr >> nth=0") != sharp
    assert visit.text("#answer") == "sieben"  # the likeliest stays the likeliest
    visit.page.check("#knob-draw")
    drawn = {visit.text("#answer")}
    for _ in range(6):
        visit.page.click("#draw-again")
        drawn.add(visit.text("#answer"))
    assert len(drawn) > 3
    again = visit.hash()
    address = "#" + "&".join(f"{name}={value}" for name, value in again.items())
    assert open_page(address).text("#answer") == visit.text("#answer")


def test_padding_changes_nothing_unless_the_mask_is_wrong(open_page):
    right = open_page().text("#answer")
    assert open_page("#padding=8").text("#answer") == right
    padded, wrong = (open_page(f"#padding=8{m}&at=probabilities") for m in ("", "&mistake=A24%3Apadding+is+ignored"))
    assert padded.tokens("source") == wrong.tokens("source") == open_page().tokens("source") + 8
    assert padded.text(".next tbody") != wrong.text(".next tbody")


def test_the_decoders_loop_token_by_token(open_page):
    visit = open_page("#s=four+hundred+and+twenty-one&at=probabilities&token=1")
    written = []
    while True:
        rows = visit.page.locator(".next tbody tr")
        assert rows.count() == 10
        written.append(visit.text(".next .written th"))
        if not visit.page.is_visible(".next-word button"):
            break
        visit.page.click(".next-word button")
        visit.page.click("[data-at='probabilities 1']")
    assert written[-1] == "end"
    assert re.sub(r"␣|space|\s", "", "".join(written[:-1])) == visit.text("#answer")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("日本", "knows nothing of “日本”"),
        ("one " * 500, "501 tokens with its end, but the model reads at most 128"),
        ("forty-日", "does not know all of “forty-日”"),
    ],
)
def test_bad_sentences_get_a_sentence(text, says, open_page):
    visit = open_page()
    visit.page.fill("#sentence", text)
    assert says in visit.text("#trouble")
    assert visit.errors == []
    visit.page.fill("#sentence", "seven")
    assert visit.text("#answer") == "sieben"
    assert not visit.page.is_visible("#trouble")


def test_an_empty_sentence_is_asked_for(open_page):
    visit = open_page()
    visit.page.fill("#sentence", "")
    visit.page.press("#sentence", "Enter")
    assert "write a sentence" in visit.text("#trouble")


def test_another_sentence(open_page):
    visit = open_page()
    before = visit.text("#answer")
    visit.page.click("#another")
    assert visit.text("#answer") != before
    assert visit.page.input_value("#sentence").replace(" ", "+").replace(",", "%2C") == visit.hash()["s"]
