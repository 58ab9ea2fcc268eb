// Loads data for pages. Loads again when the query or the moment changes, after the server was away, and, with `every`,
// periodically while the page is visible.
import { useEffect, useRef, useState } from './html.js';
import { generation, moment } from './state.js';

/**
 * @param {(signal: AbortSignal) => Promise<any>} ask
 * @param {any[]} question the values that the answer depends on
 * @param {{every?: number}} [options] milliseconds between two queries of the present; may change
 */
export function useLoad(ask, question, { every } = {}) {
  const [answer, setAnswer] = useState(/** @type {any} */ ({ data: null, error: null, busy: true, of: null }));
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
    const run = async () => {
      try {
        const data = await latest.current(stop.signal);
        if (!stop.signal.aborted) setAnswer({ data, error: null, busy: false, of: key });
      } catch (error) {
        if (stop.signal.aborted) return;
        // The page keeps its data while the server does not answer, and clears it on a refusal.
        setAnswer((old) => ({ data: error.status === 0 && old.of === key ? old.data : null, error, busy: false, of: key }));
      }
      if (pause.current && !at && !stop.signal.aborted) timer = setTimeout(tick, pause.current);
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
