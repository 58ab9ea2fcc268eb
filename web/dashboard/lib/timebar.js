// The time bar, which shows the pages that support it as of a past moment.
import { html, useEffect, useState } from './html.js';
import { get } from './api.js';
import { moment, session } from './state.js';
import { millis, time } from './ui.js';

const STEPS = 2000;
const DAY = 86_400_000;

/** A second before the first event if the viewer can read it; otherwise a week ago. */
async function beginning() {
  if (session.get()?.may.audit) {
    const page = await get('chronova/v1/events', { query: { limit: 1 }, quiet: true }).catch(() => null);
    if (page?.events[0]) return millis(page.events[0].recorded_at) - 1000;
  }
  return Date.now() - 7 * DAY;
}

const SPANS = [['all', 'Whole log'], ['3600000', 'Last hour'], [String(DAY), 'Last day'], [String(7 * DAY), 'Last week']];

/** `2026-01-31T12:00:00` in UTC, the format of the input field. */
const field = (ms) => new Date(ms).toISOString().slice(0, 19);

export function TimeBar({ supported }) {
  const at = moment.use();
  const [first, setFirst] = useState(Date.now() - DAY);
  const [now, setNow] = useState(Date.now());
  const [span, setSpan] = useState('all');
  // The step of the slider while it is dragged.
  const [dragged, setDragged] = useState(/** @type {number|null} */ (null));
  useEffect(() => {
    beginning().then(setFirst);
  }, []);
  useEffect(() => {
    // The scale stands still while the pages show a past moment. It also stands still while the user drags the slider.
    if (at || dragged !== null) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [at, dragged !== null]);
  const from = span === 'all' ? first : Math.max(first, now - Number(span));
  const of = (step) => from + ((now - from) * step) / STEPS;
  const shown = dragged !== null ? of(dragged) : at ? Date.parse(at) : now;
  const step = dragged ?? Math.round(((shown - from) / Math.max(1, now - from)) * STEPS);
  const go = (ms) => {
    setDragged(null);
    // The last step is the present, which moves on.
    moment.set(ms >= now - (now - from) / STEPS ? null : new Date(Math.round(ms)).toISOString());
  };
  return html`<section class="timebar" aria-label="Time">
    <button type="button" class="small" id="now" onClick=${() => go(Infinity)} disabled=${!at}>Now</button>
    <input type="range" id="time" min="0" max=${STEPS} value=${step} aria-label="Moment" aria-valuetext=${at || dragged !== null ? time(new Date(shown).toISOString()) : 'now'}
      onInput=${(event) => setDragged(Number(event.target.value))} onChange=${(event) => go(of(Number(event.target.value)))} />
    <select class="small" aria-label="Span of the time bar" value=${span} onChange=${(event) => setSpan(event.target.value)}>
      ${SPANS.map(([key, text]) => html`<option value=${key}>${text}</option>`)}
    </select>
    <input type="datetime-local" id="moment" step="1" aria-label="Moment, UTC" value=${field(shown)}
      onChange=${(event) => event.target.value && go(Date.parse(`${event.target.value}Z`))} />
    ${at && html`<a class="button small" href=${`#/compare?from=${encodeURIComponent(at)}`}>Compare with now</a>`}
    <output id="as-of" role="status">${at
      ? html`As of <b>${time(at)}</b> UTC: actions are off.${supported ? '' : ' This page shows the present.'}`
      : 'Now'}</output>
  </section>`;
}
