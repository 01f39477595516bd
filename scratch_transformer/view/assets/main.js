// The page: opens what it was given, and connects its controls.

import { byId } from "./dom.js";
import { connectKeys } from "./keys.js";
import { Reader } from "./reader.js";
import { recipe } from "./recipe.js";
import { render } from "./render.js";
import { countRight, selfCheck } from "./selfcheck.js";
import { open } from "./session.js";
import { Tokenizer } from "./tokenizer.js";
import { Transformer } from "./transformer.js";
import { connectKnobs } from "./whatif.js";

async function main() {
  const session = await open(JSON.parse(byId("data").textContent));
  const reader = new Reader(session, shown, refused);

  function shown(trouble) {
    byId("trouble").textContent = trouble;
    byId("sentence").removeAttribute("aria-invalid");
    render(reader);
    countRight(session, reader.state);
  }

  function refused(trouble) {
    byId("trouble").textContent = trouble;
    byId("sentence").setAttribute("aria-invalid", "true");
  }

  globalThis.view = { session, recipe, Tokenizer, Transformer }; // for whoever opens the browser's console
  connectSentence(reader);
  connectKnobs(reader);
  connectKeys(reader);
  byId("begin").addEventListener("click", () => reader.begin());
  byId("back").addEventListener("click", () => reader.step(-1));
  byId("forth").addEventListener("click", () => reader.step(1));
  addEventListener("popstate", () => reader.follow(location.hash));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => render(reader));
  reader.follow(location.hash);
  selfCheck(session);
  document.documentElement.dataset.ready = "true";
}

function connectSentence(reader) {
  const input = byId("sentence");
  const translate = (sentence, isNew) => reader.change({ sentence, token: 0, query: 0 }, isNew);
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    translate(input.value.trim(), true);
  });
  input.addEventListener("input", () => {
    if (input.value.trim()) translate(input.value, false);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    byId("ask").requestSubmit();
  });
  byId("another").addEventListener("click", () => {
    const texts = reader.session.document.examples.map(([text]) => text);
    input.value = texts[(texts.indexOf(reader.state.sentence) + 1) % texts.length];
    translate(input.value, true);
  });
}

main().catch((error) => {
  byId("trouble").textContent = `This page cannot start in this browser: ${error.message}.`;
  throw error;
});
