// The right side: the equation, PyTorch's numbers, the lines of code, and what they say about themselves.

import { element, power, written } from "./dom.js";

/** verdict: {kind, largest, count} about PyTorch's numbers. */
export function explanation(reader, verdict) {
  const { point, session } = reader;
  const equation = element("div", { class: "equation", tabindex: 0, role: "group", "aria-label": "Equation" });
  equation.innerHTML = point.mathml;
  return [
    section("Equation", equation),
    section("PyTorch", verdictText(reader, verdict)),
    section("Code", listing(point, session.document.sources[point.source])),
  ];
}

function section(title, content) {
  return element("section", {}, element("h3", {}, title), content);
}

function verdictText(reader, { kind, largest, count }) {
  const { document, recorded } = reader.session;
  if (kind === "other" && reader.state.sentence === recorded.sentence) {
    return element("p", {}, "With what you have changed, other tokens are read here than PyTorch has read.");
  }
  if (kind === "other") {
    const onclick = () => reader.change({ sentence: recorded.sentence, token: 0 });
    const back = element("button", { type: "button", class: "link", onclick }, "Show that one");
    return element("p", {}, "PyTorch’s numbers were recorded for another sentence. ", back);
  }
  if (kind === "other shape")
    return element("p", {}, "This has another shape than PyTorch’s: there is nothing to compare.");
  const size = element("strong", {}, largest < 1e-3 ? power(largest) : written(largest));
  if (kind === "altered") {
    const isBroken = largest > 1e-6 ? "broken" : "";
    return element(
      "p",
      { class: isBroken },
      "With what you have changed, it is up to ",
      size,
      " away from torch.nn’s.",
    );
  }
  const all = `torch.nn ${document.torch} computes the same: of ${count.toLocaleString("en")} numbers, `;
  if (largest === 0) return element("p", {}, all, "all are equal to the last bit.");
  return element("p", {}, all, "none is further away than ", size, ".");
}

function listing(point, source) {
  const lines = source.html.map((html, number) => {
    const isHit = point.lines.includes(number);
    const line = element("span", { class: isHit ? "line hit" : "line" });
    line.innerHTML = html || " ";
    if (isHit) line.prepend(element("span", { class: "unseen" }, "computed here: "));
    return line;
  });
  const place = element("figcaption", {}, `${source.file}, line ${source.line + point.lines[0]}`);
  const code = element("pre", { tabindex: 0, "aria-label": `Source of ${source.name}` }, element("code", {}, ...lines));
  const doc = element(
    "details",
    {},
    element("summary", {}, "Its documentation"),
    element("pre", { class: "doc" }, source.doc),
  );
  return element("figure", { class: "code" }, place, code, doc);
}
