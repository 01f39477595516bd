// What the page says about its own numbers, and about how many sentences are still right.

import { checked, stillRight } from "./check.js";
import { byId, power } from "./dom.js";
import { isAltered } from "./session.js";
import { RIGHT } from "./state.js";

/** The page's numbers beside torch.nn's and Python's, and its translations beside Python's, said at the bottom. */
export async function selfCheck(session) {
  const { largest, numbers, tensors, missing } = checked(session);
  const isRight = largest < 1e-4 && !missing.length;
  const line = byId("self-check");
  line.classList.add(isRight ? "good" : "broken");
  line.textContent = isRight
    ? `This page has just checked itself: of ${numbers.toLocaleString("en")} numbers in ${tensors} tensors, none is ` +
      `further than ${power(largest)} from what torch.nn ${session.document.torch} and scratch_transformer computed.`
    : `This page does not compute what torch.nn computed: the largest difference is ${power(largest)}; ` +
      `missing: ${missing.join(", ") || "nothing"}.`;
  line.dataset.largest = largest;
  const { right, all } = await stillRight(session, RIGHT, () => true);
  const share = right === all ? `All ${all}` : `Only ${right} of ${all}`;
  line.append(` ${share} sample sentences have the same translation as in Python.`);
  line.dataset.right = right;
}

let counted = ""; // the changes that were counted last

/** How many of the samples are still translated right with what is changed, said beside the knobs. */
export async function countRight(session, state) {
  const changed = { ...state, sentence: "", draw: 0 };
  const key = isAltered(state) ? JSON.stringify([state.changes, state.off, state.padding]) : "";
  if (key === counted) return;
  counted = key;
  byId("still-right").textContent = "";
  if (!key) return;
  const found = await stillRight(session, changed, () => key === counted);
  if (!found) return;
  const how = found.right === 0 ? "none is" : found.right === 1 ? "1 is" : `${found.right} are`;
  byId("still-right").textContent = `Of ${found.all} sentences, ${how} still translated right.`;
}
