// Colours of numbers: blue below 0, orange above; by the stops below, light and dark.

const STOPS = {
  light: {
    cold: ["#fcfbf8", "#bcd3e3", "#5d93bd", "#1d4f7c"],
    hot: ["#fcfbf8", "#f3cba6", "#dc8447", "#97400f"],
    none: "#e9e5dc",
    ink: ["#23211e", "#ffffff"],
  },
  dark: {
    cold: ["#1f2125", "#27465f", "#3f7fae", "#9fd0f2"],
    hot: ["#1f2125", "#5f3a20", "#b9682f", "#ffc08c"],
    none: "#34363b",
    ink: ["#eae7e1", "#121212"],
  },
};

export function theme() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** x from -1 to 1 -> [r, g, b]. */
export function colour(x, scheme) {
  const stops = STOPS[scheme][x < 0 ? "cold" : "hot"];
  const place = Math.min(1, Math.abs(x)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place));
  const share = place - i;
  const [from, to] = [parsed(stops[i]), parsed(stops[i + 1])];
  return from.map((channel, c) => Math.round(channel + (to[c] - channel) * share));
}

/** A share from 0 to 1 -> [r, g, b]: the blue side. */
export function shade(x, scheme) {
  return colour(-x, scheme);
}

export function blank(scheme) {
  return STOPS[scheme].none;
}

/** The ink that can be read on a colour. */
export function inkOn([r, g, b], scheme) {
  const light = 0.299 * r + 0.587 * g + 0.114 * b > 140;
  const [first, second] = STOPS[scheme].ink;
  return (scheme === "light") === light ? first : second;
}

function parsed(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
