// The tensors that packing.py has made text of.

import { tensor } from "./arithmetic.js";

/** {tensors: [name, shape], width, deflated} -> Map of name -> tensor. beside: what only differing bits were packed of. */
export async function unpack({ tensors, width, deflated, aliases = {} }, beside = null) {
  const planes = await inflated(deflated);
  if (beside)
    (await inflated(beside.deflated)).forEach((byte, i) => {
      planes[i] ^= byte;
    });
  const count = planes.length / width;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0; i < count; i++) bytes[i * width + plane] = planes[plane * count + i];
  }
  const read = { 2: float16, 4: (view, at) => view.getFloat32(at, true), 8: (view, at) => view.getFloat64(at, true) }[
    width
  ];
  const view = new DataView(bytes.buffer);
  const found = new Map();
  let at = 0;
  for (const [name, shape] of tensors) {
    const x = tensor(shape);
    for (let i = 0; i < x.data.length; i++, at += width) x.data[i] = read(view, at);
    found.set(name, x);
  }
  for (const [name, other] of Object.entries(aliases)) found.set(name, found.get(other));
  return found;
}

async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A number of 16 bits: a sign, 5 bits of exponent, 10 of mantissa. */
function float16(view, at) {
  const bits = view.getUint16(at, true);
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024);
  return bits >> 15 ? -size : size;
}
