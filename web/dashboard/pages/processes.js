// Processes that run, are stuck, have failed or have completed, folded from their events; also migrations.
import { html, useState } from '../lib/html.js';
import { doubling, get, remove } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { moment } from '../lib/state.js';
import { newest, reason, sentence } from '../lib/events.js';
import { Act, Badge, Choice, Field, Table, Trouble, duration, millis, short, time } from '../lib/ui.js';

const SPANS = [['900', 'Last 15 minutes'], ['3600', 'Last hour'], ['86400', 'Last day'], ['', 'All of the log']];

/** One row for each process, from its events. */
export function fold(all) {
  const rows = new Map();
  for (const event of all) {
    const row = rows.get(event.stream) || { id: event.stream, began: event.recorded_at, steps: 0, state: 'running', why: '', name: '' };
    const fact = event.kind.split('.')[1];
    if (fact === 'started') row.name = sentence(event).replace(/^process | began$/g, '');
    if (fact === 'step_done') row.steps += 1;
    if (fact === 'step_failed' || fact === 'step_stuck') row.why = `${sentence(event)} ${reason(event)}`;
    if (fact === 'step_stuck') row.state = 'stuck';
    if (fact === 'step_done' || fact === 'step_undone') row.state = 'running';
    if (fact === 'finished') row.state = /fail|undone|called|abandon/i.test(JSON.stringify(event.payload.outcome)) ? 'failed' : 'done';
    row.last = event.recorded_at;
    row.request = event.request_id;
    rows.set(event.stream, row);
  }
  return [...rows.values()].reverse();
}

const COLUMNS = [
  { name: 'state', title: 'State', value: (p) => p.state, show: (p) => html`<${Badge}>${p.state}<//>` },
  { name: 'name', title: 'Process', value: (p) => p.name, show: (p) => p.name || html`<span class="quiet">began earlier</span>` },
  { name: 'began', title: 'Began', value: (p) => p.began, show: (p) => time(p.began) },
  { name: 'took', title: 'Took', value: (p) => millis(p.last) - millis(p.began), show: (p) => (p.state === 'running' ? '' : duration(millis(p.last) - millis(p.began))) },
  { name: 'steps', title: 'Steps done', value: (p) => p.steps, show: (p) => p.steps },
  { name: 'why', title: 'Last trouble', show: (p) => p.why },
  { name: 'id', title: 'Id', show: (p) => html`<span class="mono" title=${p.id}>${short(p.id.replace('process-', ''))}</span>` },
  { name: 'request', title: 'Request', show: (p) => p.request && html`<a class="mono" title=${p.request} href=${`#/audit?request_id=${p.request}`}>${short(p.request)}</a>` },
];
const MIGRATIONS = [
  { name: 'status', title: 'Status', value: (m) => m.status, show: (m) => html`<${Badge}>${m.status}<//>` },
  { name: 'type', title: 'Type', value: (m) => m.migration_type, show: (m) => m.migration_type },
  { name: 'server', title: 'Server', show: (m) => html`<a class="mono" href=${`#/servers/${m.instance_uuid}`}>${short(m.instance_uuid)}</a>` },
  { name: 'from', title: 'From', value: (m) => m.source_compute, show: (m) => m.source_compute },
  { name: 'to', title: 'To', value: (m) => m.dest_compute, show: (m) => m.dest_compute },
  { name: 'began', title: 'Began', value: (m) => m.created_at, show: (m) => time(m.created_at) },
];

/** A live migration can be aborted until its last phase. */
const ABORTABLE = ['queued', 'accepted', 'preparing', 'running'];
const abort = (reload) => ({ name: 'actions', title: 'Action', show: (m) => m.migration_type === 'live-migration' && ABORTABLE.includes(m.status)
  && html`<${Act} small danger sure="Call the live migration off?" done="The migration is being called off." on=${() => remove(`compute/v2.1/servers/${m.instance_uuid}/migrations/${m.id}`).then(reload)}>Abort<//>` });

export default function Processes({ viewer }) {
  const [span, setSpan] = useState('3600');
  const [only, setOnly] = useState('');
  const at = moment.use();
  const load = useLoad(async (signal, tell) => {
    const end = at ? Date.parse(at) : Date.now();
    const since = span ? new Date(end - Number(span) * 1000).toISOString() : undefined;
    const moves = await get('compute/v2.1/os-migrations', { signal, past: true, query: { limit: 200 } }).catch((error) => { if (error.status === 403) return { migrations: [] }; throw error; });
    const shown = (all, more) => ({ rows: fold(all), more, moves: moves.migrations });
    const found = await newest({ kind: 'process.', ...(since && { since }) }, signal, 20_000, doubling((all) => tell(shown(all, false))));
    return shown(found.events, found.more);
  }, ['processes', span], { every: 4000 });
  const rows = (load.data?.rows || []).filter((row) => !only || row.state === only);
  const count = (state) => (load.data?.rows || []).filter((row) => row.state === state).length;
  return html`<div class="title"><h1>Processes <span class="quiet" id="count">${rows.length}</span></h1></div>
    <div class="row"><${Field} label="Time"><${Choice} id="span" value=${span} onChange=${setSpan} options=${SPANS} /><//>
      <${Field} label="State"><${Choice} id="state" value=${only} onChange=${setOnly} options=${[['', 'All'], ['running', `Under way (${count('running')})`], ['stuck', `Stuck (${count('stuck')})`], ['failed', `Failed (${count('failed')})`], ['done', `Done (${count('done')})`]]} /><//></div>
    <${Trouble} load=${load} what="process" />
    ${load.data && html`${load.data.more && html`<p class="quiet">The newest processes are shown. There may be older ones in this time.</p>`}
      <${Table} label="Processes" columns=${COLUMNS} rows=${rows} rowClass=${(row) => (row.state === 'stuck' || row.state === 'failed' ? 'bad' : '')} empty="No process in this time." />
      <h2>Migrations</h2>
      <${Table} label="Migrations" columns=${viewer.may.abort ? [...MIGRATIONS, abort(load.reload)] : MIGRATIONS} rows=${load.data.moves} id=${(m) => m.uuid} empty="No migrations." />`}`;
}
