// Keys for those who do not want the mouse: arrows for steps, digits for heads.

const ELSEWHERE = "input, select, textarea, [role=application], pre, .scroll"; // where keys have a meaning of their own

export function connectKeys(reader) {
  const { num_heads } = reader.session.config;
  addEventListener("keydown", (event) => {
    const isModified = event.ctrlKey || event.metaKey || event.altKey;
    if (event.defaultPrevented || isModified || event.target.closest(ELSEWHERE)) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const head = Number(event.key);
    if (by && event.shiftKey) reader.toToken(reader.present.token + by);
    else if (by) reader.step(by);
    else if (head >= 1 && head <= num_heads) reader.change({ head });
    else return;
    event.preventDefault();
  });
}
