// All that the page shows of where its reader is.

import { difference } from "./check.js";
import { diagram } from "./diagram.js";
import { byId, element } from "./dom.js";
import { explanation } from "./explain.js";
import { keepFocus } from "./focus.js";
import { viewOf } from "./matrix.js";
import { crumbs, hasLayers, stackOf } from "./places.js";
import { showSentence } from "./sentence.js";
import { tensorView } from "./tensorview.js";
import { isTurned, showKnobs } from "./whatif.js";

export function render(reader) {
  const { session, state, present, point, layer } = reader;
  const view = viewOf(session, present, point, layer);
  showSentence(reader);
  showKnobs(session, state);
  byId("crumbs").textContent = crumbs(point, layer).join(" › ");
  byId("title").textContent = point.title;
  byId("says").textContent = point.says;
  const open = { encoder: 0, decoder: 0, [stackOf(point)]: hasLayers(point) ? layer : 0 };
  keepFocus(() => {
    byId("diagram").replaceChildren(diagram(reader, open));
    byId("layers").replaceChildren(...layerButtons(reader));
    byId("numbers").replaceChildren(...(view ? tensorView(reader, view) : [absent()]));
  });
  byId("why").replaceChildren(...explanation(reader, verdict(view, state)));
  showSteps(reader);
  document.title = `${point.title} – ${state.sentence} – Inside a Transformer`;
}

function absent() {
  return element("p", { class: "absent" }, "With what you have changed, this is not computed at all.");
}

/** What is to be said of PyTorch's numbers. */
function verdict(view, state) {
  if (!view || view.isOtherShape) return { kind: "other shape" };
  if (!view.torch) return { kind: "other" };
  const kind = isTurned(state) ? "altered" : "same";
  return { kind, largest: difference(view.x, view.torch), count: view.x.data.length };
}

function layerButtons(reader) {
  if (!hasLayers(reader.point)) return [];
  return Array.from({ length: reader.session.config.num_layers }, (_, i) => {
    const isPressed = String(reader.layer === i + 1);
    const onclick = () => reader.change({ layer: i + 1 });
    return element("button", { type: "button", "aria-pressed": isPressed, onclick }, `layer ${i + 1}`);
  });
}

function showSteps(reader) {
  const { places, index, present } = reader;
  const [number, all] = [places.slice(0, index + 1), places].map(
    (some) => some.filter(({ point }) => !point.detail).length,
  );
  byId("step").textContent = `step ${number} of ${all}, token ${present.token} of ${present.total}`;
  byId("progress").style.width = `${(100 * number) / all}%`;
  byId("back").disabled = number <= 1;
  byId("forth").disabled = index === places.length - 1 && reader.isLast;
}
