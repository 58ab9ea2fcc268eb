// Sorts rows by a value. Long lists are sorted in slices, so that the browser answers inputs meanwhile.

/** Milliseconds of one slice. */
const SLICE = 8;
/** The rows that are sorted at once before the merges. */
const RUN = 512;

const missing = (value) => value === null || value === undefined;
/** The order of two values. Missing values stand last in both directions. */
const compare = (a, b, sign) => (a === b ? 0 : missing(a) ? (missing(b) ? 0 : 1) : missing(b) ? -1 : a < b ? -sign : sign);

/** @param {any[]} rows @param {(row: any) => any} value @param {boolean} down */
export function sort(rows, value, down) {
  const sign = down ? -1 : 1;
  return rows.map((row) => [value(row), row]).sort(([a], [b]) => compare(a, b, sign)).map(([, row]) => row);
}

/** Lets the browser handle what waits. A timer would wait for at least 4 ms. */
const pause = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    resolve(null);
  };
  port2.postMessage(null);
});

/** Like `sort`, by merges in slices. Resolves to null if `signal` is aborted. @param {any[]} rows @param {(row: any) => any} value @param {boolean} down @param {AbortSignal} signal */
export async function sortInSlices(rows, value, down, signal) {
  const sign = down ? -1 : 1;
  const count = rows.length;
  const keys = rows.map((row) => value(row));
  let from = new Uint32Array(count);
  let to = new Uint32Array(count);
  for (let at = 0; at < count; at += 1) from[at] = at;
  let begun = performance.now();
  const isOver = async () => {
    if (performance.now() - begun < SLICE) return false;
    await pause();
    begun = performance.now();
    return signal.aborted;
  };
  for (let low = 0; low < count; low += RUN) {
    from.subarray(low, low + RUN).sort((a, b) => compare(keys[a], keys[b], sign) || a - b);
    if (await isOver()) return null;
  }
  for (let width = RUN; width < count; width *= 2) {
    for (let low = 0; low < count; low += 2 * width) {
      const middle = Math.min(low + width, count);
      const end = Math.min(low + 2 * width, count);
      let [left, right] = [low, middle];
      for (let at = low; at < end; at += 1) {
        const first = left < middle && (right >= end || compare(keys[from[left]], keys[from[right]], sign) <= 0);
        to[at] = first ? from[left++] : from[right++];
        if (at % 512 === 0 && performance.now() - begun >= SLICE && (await isOver())) return null;
      }
    }
    [from, to] = [to, from];
  }
  const sorted = new Array(count);
  for (let at = 0; at < count; at += 1) sorted[at] = rows[from[at]];
  return sorted;
}

/**
 * Sorts long lists one after another. The returned function takes the next list, or null to stop. It gives up the sort
 * under way. But if the next list differs only in its rows, it does not give up a second sort after the first.
 * Otherwise no sort would end while the rows change often.
 * @param {(done: {of: any[], name: string, down: boolean, rows: any[]}) => void} tell
 */
export function sorter(tell) {
  let next = /** @type {any} */ (null);
  let now = /** @type {any} */ (null);
  const begin = () => {
    now = next;
    next = null;
    if (!now) return;
    const { of, name, value, down, stop } = now;
    sortInSlices(of, value, down, stop.signal).then((rows) => {
      if (rows && !stop.signal.aborted) tell({ of, name, down, rows });
    }).finally(begin);
  };
  /** @param {{of: any[], name: string, value: (row: any) => any, down: boolean}|null} list */
  return (list) => {
    const turned = !list || !now || list.name !== now.name || list.down !== now.down;
    const over = Boolean(now) && (turned || !now.whole);
    next = list && { ...list, stop: new AbortController(), whole: over && !turned };
    if (over) now.stop.abort();
    if (!now) begin();
  };
}
