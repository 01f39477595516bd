// The sentence, its tokens, and the translation that grows token by token.

import { byId, element, percent, plain, quoted, tokenElement } from "./dom.js";
import { keepFocus } from "./focus.js";
import { EOS, isAltered } from "./session.js";

export function showSentence(reader) {
  const { session, state, written, present, right } = reader;
  showInput(state.sentence);
  const isBroken = isAltered(state) && written.text !== right;
  byId("answer").textContent = written.text || "(nothing)";
  byId("answer").classList.toggle("broken", isBroken);
  byId("cut").textContent = written.isFinished ? "" : "… cut here: no end in sight";
  byId("instead").textContent = isBroken ? `instead of “${right}”` : "";
  byId("decided").textContent = decided(session, present);
  const source = present.source.map((id) => tokenElement(session.source.vocabulary[id], "li"));
  const ids = written.isFinished ? [...written.ids, EOS] : written.ids;
  const target = ids.map((id, i) => element("li", {}, targetToken(reader, session.target.vocabulary[id], i + 1)));
  byId("source-tokens").replaceChildren(...source);
  keepFocus(() => byId("target-tokens").replaceChildren(element("li", { class: "token special" }, "start"), ...target));
}

function showInput(sentence) {
  const input = byId("sentence");
  if (document.activeElement !== input) input.value = sentence;
  input.style.height = "auto"; // as many lines as it needs
  input.style.height = `${input.scrollHeight + 2}px`;
}

/** A button that leads to the pass that decided on this token. */
function targetToken(reader, token, number) {
  const { written, present } = reader;
  const when = number < present.token ? "past" : number === present.token ? "now" : "later";
  const probability = percent(written.probabilities[number - 1]);
  return tokenElement(token, "button", {
    type: "button",
    class: when,
    "aria-current": when === "now" ? "step" : null,
    "aria-label": `token ${number}: ${plain(token)}, ${probability}`,
    title: `token ${number}: ${probability}`,
    onclick: () => reader.toToken(number),
  });
}

function decided(session, present) {
  const count = present.prefix.length - 1;
  const before = count ? `${count} ${count === 1 ? "token is" : "tokens are"} written` : "Nothing is written yet";
  return `${before}; this is the pass that decides on ${quoted(session.target.vocabulary[present.next])}.`;
}
