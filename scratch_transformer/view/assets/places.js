// The points of the story in order, with the layers that they occur in: where one can be, and what comes next.

export const STACKS = { encoder: "Encoder", decoder: "Decoder" };
const PARTS = {
  self_attention: "Self-attention",
  cross_attention: "Attention to the source",
  feed_forward: "Feed-forward network",
};

/** "encoder.layers.*.self_attention.weights" is addressed as "encoder.self_attention.weights" and a layer. */
export const addressOf = (place) => place.replace("layers.*.", "");
export const hasLayers = (point) => point.place.includes("*");
export const stackOf = (point) => (/^(encoder|src)/.test(point.place) ? "encoder" : "decoder");
export const nameIn = (point, layer) => point.place.replace("*", layer - 1);

/** Every place in the order of computation: [{point, layer}], layer 1 where there is none. */
export function itinerary(points, layers) {
  const places = [];
  for (const stack of Object.keys(STACKS)) {
    const own = points.filter((point) => stackOf(point) === stack);
    const first = own.findIndex(hasLayers);
    const inside = own.filter(hasLayers);
    const after = own.slice(first + inside.length);
    places.push(...own.slice(0, first).map((point) => ({ point, layer: 1 })));
    for (let layer = 1; layer <= layers; layer++) places.push(...inside.map((point) => ({ point, layer })));
    places.push(...after.map((point) => ({ point, layer: 1 })));
  }
  return places;
}

/** The part of a layer that a point belongs to: "self_attention", "feed_forward", "norm", "sum", or none. */
export function partOf(point) {
  if (/\.norm(\.\w+)?$/.test(point.place)) return "norm";
  if (/connections\.\d\.sum$/.test(point.place)) return "sum";
  return Object.keys(PARTS).find((part) => point.place.includes(`.${part}.`)) || "";
}

/** "Decoder › layer 2 › attention to the source" */
export function crumbs(point, layer) {
  const part = partOf(point);
  const where = [STACKS[stackOf(point)]];
  if (hasLayers(point)) where.push(`Layer ${layer}`);
  if (PARTS[part]) where.push(PARTS[part]);
  else if (part === "norm") where.push(hasLayers(point) ? `Normalization ${numberOf(point)}` : "Last normalization");
  else if (part === "sum") where.push(`Residual connection ${numberOf(point)}`);
  else where.push(/embed|pos/.test(point.place) ? "Embedding" : "Output");
  return where;
}

function numberOf(point) {
  return Number(/connections\.(\d)/.exec(point.place)[1]) + 1;
}

/** The head's name in the list of those that are switched off, or null outside of attention. */
export function headName(point, layer, head) {
  const part = partOf(point);
  if (!part.endsWith("attention")) return null;
  return `${stackOf(point)}.${layer - 1}.${part.startsWith("self") ? "self" : "cross"}.${head - 1}`;
}

/** The points of a layer as they lie under its residual connections: [[part, points], ...] of each sublayer. */
export function sublayers(points) {
  const groups = [];
  const numbers = points.map((point) => sublayerOf(point, points));
  points.forEach((point, i) => {
    if (numbers[i] !== numbers[i - 1]) groups.push([]);
    const [parts, part] = [groups.at(-1), partOf(point)];
    if (parts.length && parts.at(-1)[0] === part) parts.at(-1)[1].push(point);
    else parts.push([part, [point]]);
  });
  return groups;
}

/** The number of the residual connection around a point: its own, or that of the sum that follows. */
function sublayerOf(point, points) {
  const own = /connections\.(\d)/.exec(point.place);
  if (own) return Number(own[1]);
  return numberOf(points.slice(points.indexOf(point)).find((other) => partOf(other) === "sum")) - 1;
}
