// Buttons that are made anew keep the focus that the old ones had.

export function keepFocus(replace) {
  const old = document.activeElement;
  const region = old && old.id === "" ? old.closest("#diagram, #numbers, #layers, #target-tokens") : null;
  const name = region ? nameOf(old) : "";
  replace();
  if (!region || document.activeElement === old) return;
  const same = [...region.querySelectorAll("button, canvas, [tabindex]")].find((other) => nameOf(other) === name);
  if (same) same.focus({ preventScroll: true });
}

function nameOf(made) {
  return made.dataset.at || made.getAttribute("aria-label") || made.textContent;
}
