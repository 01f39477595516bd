// The sentence, its tokens, and the translation that grows token by token.

import { byId, element, percent, plain, tokenElement } from "./dom.js";
import { EOS, isAltered } from "./session.js";

/** Shows a translation. present: the pass that is looked at. choose(token): the number of a written token. */
export function showSentence(session, state, written, present, right, choose) {
  const input = byId("sentence");
  if (document.activeElement !== input) input.value = state.sentence;
  input.style.height = "auto"; // as many lines as it needs
  input.style.height = `${input.scrollHeight + 2}px`;
  const answer = byId("answer"), isBroken = isAltered(state) && written.text !== right;
  answer.textContent = written.text || "(nothing)";
  answer.classList.toggle("broken", isBroken);
  byId("cut").textContent = written.isFinished ? "" : "… cut here: no end in sight";
  byId("instead").textContent = isBroken ? `instead of “${right}”` : "";
  byId("source-tokens").replaceChildren(...present.source.map((id) => tokenElement(session.source.vocabulary[id], "li")));
  const ids = written.isFinished ? [...written.ids, EOS] : written.ids;
  byId("target-tokens").replaceChildren(element("li", { class: "token special" }, "start"), ...ids.map((id, i) => targetToken(session, id, i + 1, written, present, choose)));
  byId("decided").textContent = decided(session, present);
}

function targetToken(session, id, number, written, present, choose) {
  const token = session.target.vocabulary[id], p = written.probabilities[number - 1];
  const when = number < present.token ? "past" : number === present.token ? "now" : "later";
  const button = tokenElement(token, "button", { type: "button", class: when, "aria-current": when === "now" ? "step" : null, title: `token ${number}: ${percent(p)}`, onclick: () => choose(number) });
  button.setAttribute("aria-label", `token ${number}: ${plain(token)}, ${percent(p)}`);
  return element("li", {}, button);
}

function decided(session, present) {
  const before = present.prefix.length === 1 ? "Nothing is written yet" : `${present.prefix.length - 1} ${present.prefix.length === 2 ? "token is" : "tokens are"} written`;
  return `${before}; this is the pass that decides on “${plain(session.target.vocabulary[present.next])}”.`;
}
