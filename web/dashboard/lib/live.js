// The live feed, which names the servers that have changed. One feed serves all pages of a session. Viewers of one
// project follow their project's own feed; readers of the log follow the log.
import { useEffect, useRef } from './html.js';
import { followStream, position } from './events.js';
import { session, shared } from './state.js';

/** Whether the feed is connected. The pages about servers then poll less often. */
export const alive = shared(false);

/** @type {Set<(ids: Set<string>|null) => void>} */
const listeners = new Set();
/** Changes are collected for this time, so that many events cause one request. */
const PAUSE = 400;

let waiting = /** @type {Set<string>} */ (new Set());
let timer = 0;
let stop = /** @type {AbortController|null} */ (null);

const tell = (ids) => { for (const listener of [...listeners]) listener(ids); };

function changed(ids) {
  for (const id of ids) waiting.add(id);
  if (timer || waiting.size === 0) return;
  timer = window.setTimeout(() => {
    const told = waiting;
    waiting = new Set();
    timer = 0;
    tell(told);
  }, PAUSE);
}

const SERVER = /^instance-(.*)$/;

function start(viewer) {
  stop = new AbortController();
  const { signal } = stop;
  const state = (up) => {
    const was = alive.get();
    alive.set(up);
    // After a gap in the feed, the pages load their data again. They also do so when the feed breaks, so that they
    // notice an outage at once.
    if (up || was) tell(null);
  };
  if (viewer.may.audit) {
    followStream('chronova/v1/events', { kind: 'instance.' }, () => position(signal), (event) => changed([SERVER.exec(event.stream)?.[1]].filter(Boolean)), signal, state);
  } else if (viewer.may.changes && viewer.project) {
    followStream('chronova/v1/changes', {}, null, (event) => changed(event.servers), signal, state);
  }
}

/** Follows the session: connects after log-in, and disconnects after log-out. */
export function connect() {
  const follow = () => {
    const viewer = session.get();
    if (viewer && !stop) start(viewer);
    if (!viewer && stop) {
      stop.abort();
      stop = null;
      alive.set(false);
    }
  };
  session.watch(follow);
}

/** Calls `listener` with the ids of changed servers, or with null when the feed has connected or broken. */
export function useChanges(listener) {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => {
    const own = (ids) => latest.current(ids);
    listeners.add(own);
    return () => { listeners.delete(own); };
  }, []);
}
