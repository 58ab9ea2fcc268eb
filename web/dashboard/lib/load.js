// Loads data for pages. Loads again when the query or the moment changes, after the server was away, and, with `every`,
// periodically while the page is visible.
import { useEffect, useRef, useState } from './html.js';
import { generation, moment } from './state.js';

/** At least this multiple of the time that the last query took passes between two queries of the present. */
const REST = 10;

/**
 * @param {(signal: AbortSignal, tell: (part: any) => void) => Promise<any>} ask `tell` shows what is known so far of the
 *   first answer. Later answers are shown when they are whole.
 * @param {any[]} question the values that the answer depends on
 * @param {{every?: number}} [options] milliseconds between two queries of the present; may change
 */
export function useLoad(ask, question, { every } = {}) {
  const [answer, setAnswer] = useState(/** @type {any} */ ({ data: null, error: null, busy: true, of: null, whole: false }));
  const [again, setAgain] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  const pause = useRef(every);
  pause.current = every;
  const at = moment.use();
  const round = generation.use();
  const key = JSON.stringify([question, at]);
  useEffect(() => {
    const stop = new AbortController();
    let timer;
    const tell = (part) => {
      if (stop.signal.aborted) return;
      setAnswer((old) => (old.of === key && old.whole ? old : { data: part, error: null, busy: true, of: key, whole: false }));
    };
    const run = async () => {
      const begun = performance.now();
      try {
        const data = await latest.current(stop.signal, tell);
        if (!stop.signal.aborted) setAnswer({ data, error: null, busy: false, of: key, whole: true });
      } catch (error) {
        if (stop.signal.aborted) return;
        // The page keeps its data while the server does not answer, and clears it on a refusal.
        setAnswer((old) => {
          const kept = error.status === 0 && old.of === key;
          return { data: kept ? old.data : null, error, busy: false, of: key, whole: kept && old.whole };
        });
      }
      if (pause.current && !at && !stop.signal.aborted) timer = setTimeout(tick, Math.max(pause.current, REST * (performance.now() - begun)));
    };
    const tick = () => (document.hidden ? (timer = setTimeout(tick, pause.current)) : run());
    setAnswer((old) => ({ ...old, busy: true, data: old.of === key ? old.data : null, error: old.of === key ? old.error : null }));
    run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, round, again]);
  return { ...answer, reload: () => setAgain((n) => n + 1) };
}
