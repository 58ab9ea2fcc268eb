// The timeline of a server: the requests with their users, their steps and the durations of the steps.
import { html, useState } from '../lib/html.js';
import { doubling, get } from '../lib/api.js';
import { moment } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { bad, events, reason, sentence } from '../lib/events.js';
import { Badge, Trouble, duration, millis, time } from '../lib/ui.js';
import { Name, Who } from '../lib/who.js';

/** The most requests that are shown, and the most steps of each. A page with thousands of steps takes seconds to render. */
const MOST = { requests: 200, steps: 300 };

/** Events in groups by request or cause: the newest group first, and the oldest event of each group first. */
export function chapters(all) {
  const groups = new Map();
  for (const event of all) {
    const group = groups.get(event.correlation) || { id: event.correlation, events: [] };
    group.events.push(event);
    groups.set(event.correlation, group);
  }
  return [...groups.values()].reverse();
}

function Step({ event, from, before, whole }) {
  // The details of thousands of events take long to render, so each is rendered when it is opened.
  const [open, setOpen] = useState(false);
  const at = millis(event.recorded_at);
  const took = at - before;
  const failed = bad(event);
  const why = failed && reason(event);
  return html`<li class=${failed ? 'step bad' : 'step'} data-kind=${event.kind}>
    <span class="num" title=${event.recorded_at}>+${duration(at - from)}</span>
    <span class="num took">${took > 0 ? duration(took) : ''}</span>
    <span class="bar" aria-hidden="true"><i style=${{ marginLeft: `${((before - from) / whole) * 100}%`, width: `${(took / whole) * 100}%` }}></i></span>
    <details onToggle=${(e) => setOpen(e.target.open)}><summary>${sentence(event)}${why && html`: <b>${why}</b>`}</summary>
      ${open && html`<p class="quiet">Position ${event.position}, ${event.kind}, revision ${event.revision} of ${event.stream}, <${Who} event=${event} />${event.causation && `, caused by event ${event.causation}`}</p>
      <pre tabindex="0">${JSON.stringify(event.payload, null, 2)}</pre>`}</details>
  </li>`;
}

function Chapter({ group }) {
  const first = group.events[0];
  const byUser = group.events.filter((event) => event.cause?.user);
  // The heading names the request about the server itself. An earlier event, such as a claim of quota, says less to the
  // user.
  const asked = byUser.find((event) => event.kind.startsWith('instance.')) || byUser[0] || first;
  const from = millis(first.recorded_at);
  const end = millis(group.events[group.events.length - 1].recorded_at);
  const failed = group.events.some((event) => bad(event));
  const request = group.events.find((event) => event.request_id)?.request_id;
  return html`<li>
    <div class="head"><b>${sentence(asked)}</b> <span>by <${Who} event=${asked} /></span> <span class="num">${time(first.recorded_at)}</span>
      <span class="num">took ${duration(end - from)}</span> ${failed && html`<${Badge}>failed<//>`} ${request && html`<span class="mono quiet">${request}</span>`}</div>
    <ol class="steps">${group.events.slice(0, MOST.steps).map((event, at) => html`<${Step} key=${event.position} event=${event} from=${from}
      before=${at ? millis(group.events[at - 1].recorded_at) : from} whole=${Math.max(1, end - from)} />`)}</ol>
    ${group.events.length > MOST.steps && html`<p class="quiet">${group.events.length - MOST.steps} further events of this request are on the audit page.</p>`}
  </li>`;
}

function Events({ id }) {
  const load = useLoad((signal, tell) => events({ server: id }, signal, undefined, doubling((all) => tell({ events: all, next: null }))), ['timeline', id], { every: 3000 });
  const groups = load.data ? chapters(load.data.events) : [];
  return html`<${Trouble} load=${load} what="timeline" />
    ${load.data && html`<p class="quiet">${load.data.events.length} events of the log by request, newest first. The bars show where in its request a step lies.</p>
    <ol class="story" id="story">${groups.slice(0, MOST.requests).map((group) => html`<${Chapter} key=${group.id} group=${group} />`)}</ol>
    ${groups.length > MOST.requests && html`<p class="quiet">${groups.length - MOST.requests} older requests are on the audit page.</p>`}
    ${load.data.next !== null && html`<p class="quiet">There are more events; the audit page finds them.</p>`}`}`;
}

/** The actions from the Compute API, for viewers without the right to read the log. */
function Actions({ id }) {
  const at = moment.get();
  const load = useLoad(async (signal) => {
    const { instanceActions } = await get(`compute/v2.1/servers/${id}/os-instance-actions`, { signal });
    const then = instanceActions.filter((one) => !at || millis(one.start_time) <= Date.parse(at)).slice(0, 50);
    const shown = await Promise.all(then.map((one) => get(`compute/v2.1/servers/${id}/os-instance-actions/${one.request_id}`, { signal }).catch(() => ({ instanceAction: one }))));
    return shown.map((one) => one.instanceAction);
  }, ['actions', id], { every: 3000 });
  return html`<${Trouble} load=${load} what="timeline" />
    ${load.data && html`<p class="quiet">The actions of this server, newest first. Administrators see every event of the log.</p>
    <ol class="story" id="story">${load.data.map((action) => html`<li key=${action.request_id}>
      <div class="head"><b>${action.action}</b> <span>by <${Name} kind="users" id=${action.user_id} /></span> <span class="num">${time(action.start_time)}</span>
        ${action.message && html`<${Badge}>failed<//> <span>${action.message}</span>`} <span class="mono quiet">${action.request_id}</span></div>
      <ol class="steps">${(action.events || []).map((event) => html`<li class=${event.result === 'Error' ? 'step bad' : 'step'}>
        <span class="num">+${duration(millis(event.start_time) - millis(action.start_time))}</span>
        <span class="num took">${event.finish_time && duration(millis(event.finish_time) - millis(event.start_time))}</span>
        <span>${event.event.replaceAll('_', ' ')}</span><span>${event.result && html`<${Badge}>${event.result}<//>`} ${event.details}</span></li>`)}</ol>
    </li>`)}</ol>`}`;
}

export const Timeline = ({ id, viewer }) => (viewer.may.audit ? html`<${Events} id=${id} />` : html`<${Actions} id=${id} />`);
