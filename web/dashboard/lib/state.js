// State that several parts show: a value, its listeners, and a hook.
import { useEffect, useState } from './html.js';

/**
 * @template T
 * @param {T} first
 */
export function shared(first) {
  let value = first;
  const listeners = new Set();
  return {
    get: () => value,
    /** @param {T} next */
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const tell of [...listeners]) tell();
    },
    /** Calls `listener` after each change. @param {() => void} listener */
    watch(listener) {
      listeners.add(listener);
    },
    use() {
      const [, redraw] = useState(0);
      useEffect(() => {
        const tell = () => redraw((n) => n + 1);
        listeners.add(tell);
        return () => listeners.delete(tell);
      }, []);
      return value;
    },
  };
}

/** The viewer: token, user, project, roles and allowed pages. In memory only: a reload ends the session. */
export const session = shared(/** @type {any} */ (null));
/** The reason why the log-in page is shown. */
export const loginNotice = shared('');
/** The past moment that pages show (ISO time), or null for now. */
export const moment = shared(/** @type {string|null} */ (null));
/** Whether the API does not answer. */
export const down = shared(false);
/** Increases whenever pages should load again. */
export const generation = shared(0);
/** The last message for the viewer. */
export const toast = shared(/** @type {{text: string, bad: boolean}|null} */ (null));

export function say(text, bad = false) {
  toast.set({ text, bad });
}
