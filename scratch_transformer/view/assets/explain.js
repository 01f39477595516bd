// The right side: the equation, PyTorch's numbers, the lines of code, and what they say about themselves.

import { element, power } from "./dom.js";

/** point: of the story. source: its listing. verdict: {kind, largest, count} about PyTorch's numbers. */
export function explanation(point, source, verdict, { version, torch, back }) {
  const equation = element("div", { class: "equation" });
  equation.innerHTML = point.mathml;
  return [
    section("Equation", equation),
    section("PyTorch", verdictText(verdict, torch, back)),
    section("Code", listing(point, source, version)),
  ];
}

function section(title, ...content) {
  return element("section", {}, element("h3", {}, title), ...content);
}

function verdictText({ kind, largest, count }, torch, back) {
  if (kind === "other") {
    return element("p", {}, "PyTorch’s numbers were recorded for another sentence. ",
      element("button", { type: "button", class: "link", onclick: back }, "Show that one"));
  }
  if (kind === "other shape") return element("p", {}, "This has another shape than PyTorch’s: there is nothing to compare.");
  const text = kind === "altered" ? [`With what you have changed, it is up to `, element("strong", {}, power(largest)), ` away from torch.nn’s.`]
    : [`torch.nn ${torch} computes the same: of ${count.toLocaleString("en")} numbers, none is further away than `, element("strong", {}, power(largest)), "."];
  return element("p", { class: kind === "altered" && largest > 1e-6 ? "broken" : "" }, ...text);
}

function listing(point, source) {
  const code = element("code", {});
  source.html.forEach((html, number) => {
    const line = element("span", { class: point.lines.includes(number) ? "line hit" : "line" });
    line.innerHTML = html || " ";
    if (point.lines.includes(number)) line.prepend(element("span", { class: "unseen" }, "computed here: "));
    code.append(line);
  });
  return element("figure", { class: "code" },
    element("figcaption", {}, source.file, element("span", {}, `, line ${source.line + point.lines[0]}`)),
    element("pre", { tabindex: 0, "aria-label": `Source of ${source.name}` }, code),
    element("details", {}, element("summary", {}, "Its documentation"), element("pre", { class: "doc" }, source.doc)));
}
