// The log, for auditors: searches it and follows it live.
import { html, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { doubling } from '../lib/api.js';
import { moment } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { bad, events, follow, reason, sentence } from '../lib/events.js';
import { Badge, Choice, Field, Table, Trouble, short } from '../lib/ui.js';
import { Who } from '../lib/who.js';

/** Filters of the API: name, label, example. */
const FILTERS = [
  ['kind', 'Kind', 'instance.deleted'], ['user', 'User id', ''], ['project', 'Project id', ''], ['server', 'Server', 'name or id'],
  ['host', 'Host', 'name or id'], ['request_id', 'Request', 'req-…'],
];
const SPANS = [['900', 'Last 15 minutes'], ['3600', 'Last hour'], ['86400', 'Last day'], ['604800', 'Last week'], ['', 'All of the log']];
/** The most live rows. */
const KEPT = 2000;

const COLUMNS = [
  { name: 'position', title: 'Position', value: (e) => e.position, show: (e) => html`<span class="num">${e.position}</span>` },
  { name: 'time', title: 'Time (UTC)', value: (e) => e.recorded_at, show: (e) => html`<span class="num">${e.recorded_at.slice(0, 23).replace('T', ' ')}</span>` },
  { name: 'who', title: 'Who', show: (e) => html`<${Who} event=${e} />` },
  { name: 'what', title: 'What', value: (e) => e.kind, show: (e) => html`<span title=${e.kind}>${sentence(e)}</span>` },
  { name: 'target', title: 'Target', show: (e) => html`<span class="mono" title=${e.stream}>${e.target?.typeURI === 'compute/machine' ? html`<a href=${`#/servers/${e.target.id}`}>${short(e.target.id)}</a>` : short(e.target?.id)}</span>` },
  { name: 'outcome', title: 'Outcome', value: (e) => e.outcome, show: (e) => html`<${Badge}>${e.outcome}<//> ${bad(e) ? reason(e) : ''}` },
  { name: 'kind', title: 'Kind', value: (e) => e.kind, show: (e) => html`<span class="mono">${e.kind}</span>` },
  { name: 'request', title: 'Request', show: (e) => html`<span class="mono" title=${e.request_id}>${short(e.request_id)}</span>` },
];

/** The events after a position, newest first, while `on` holds; also whether the feed is connected. */
function useTail(on, query, after) {
  const [rows, setRows] = useState(/** @type {any[]} */ ([]));
  const [alive, setAlive] = useState(false);
  const waiting = useRef(/** @type {any[]} */ ([]));
  useEffect(() => {
    setRows([]);
    if (!on || after === null) return undefined;
    const stop = new AbortController();
    follow(query, after, (event) => waiting.current.push(event), stop.signal, setAlive);
    // The page renders many new events at once, not one by one.
    const timer = setInterval(() => {
      if (waiting.current.length === 0) return;
      const fresh = waiting.current.reverse();
      waiting.current = [];
      setRows((old) => [...fresh, ...old].slice(0, KEPT));
    }, 300);
    return () => {
      stop.abort();
      clearInterval(timer);
      setAlive(false);
    };
  }, [on, after, JSON.stringify(query)]);
  return { rows, alive };
}

function download(rows) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(rows.map((row) => `${JSON.stringify(row)}\n`), { type: 'application/x-ndjson' }));
  link.download = 'chronova-audit.jsonl';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export default function Audit({ query }) {
  const given = Object.fromEntries(FILTERS.map(([name]) => [name, query.get(name) || '']));
  const between = { since: query.get('since') || '', until: query.get('until') || '' };
  const [form, setForm] = useState({ ...given, span: between.since ? 'between' : FILTERS.some(([name]) => given[name]) ? '' : '3600' });
  const [asked, setAsked] = useState(form);
  const [live, setLive] = useState(false);
  const at = moment.use();
  const { span, ...filters } = asked;
  const load = useLoad((signal, tell) => {
    // The live rows follow the last page, so the first pages have no position.
    const show = doubling((all) => tell({ events: all, next: null, position: null }));
    const end = at ? Date.parse(at) : Date.now();
    if (span === 'between') return events({ ...filters, since: between.since, ...(between.until && !at && { until: between.until }) }, signal, undefined, show);
    const since = span && new Date(end - Number(span) * 1000).toISOString();
    return events({ ...filters, ...(since && { since }) }, signal, undefined, show);
  }, ['audit', asked]);
  const tail = useTail(live && !at, filters, load.data ? load.data.position : null);
  const rows = useMemo(() => (load.data ? [...tail.rows, ...load.data.events.slice().reverse()] : []), [tail.rows, load.data]);
  const put = (name) => (event) => setForm({ ...form, [name]: event.target ? event.target.value : event });
  const search = (event) => {
    event.preventDefault();
    setAsked(form);
  };
  return html`<div class="title"><h1>Audit <span class="quiet" id="count">${rows.length}</span></h1>
      <div class="row"><label class="check"><input type="checkbox" id="live" disabled=${Boolean(at)} checked=${live && !at} onChange=${(e) => setLive(e.target.checked)} /> Follow live</label>
      ${live && !at && html`<span role="status" id="live-state"><${Badge}>${tail.alive ? 'up' : 'down'}<//></span>`}
      <button type="button" class="small" disabled=${!rows.length} onClick=${() => download(rows)}>Download</button></div></div>
    <form class="sheet wide" onSubmit=${search} aria-label="Search the log"><div class="fields">
      ${FILTERS.map(([name, label, example]) => html`<${Field} label=${label}><input id=${`filter-${name}`} value=${form[name]} placeholder=${example} onInput=${put(name)} /><//>`)}
      <${Field} label="Time"><${Choice} id="span" value=${form.span} onChange=${put('span')} options=${between.since ? [...SPANS, ['between', 'Between the two moments']] : SPANS} /><//>
    </div><div class="row"><button type="submit" class="primary" id="search">Search</button></div></form>
    <${Trouble} load=${load} what="event" />
    ${load.data && load.data.next !== null && html`<p class="quiet">The first ${load.data.events.length} events in this time are shown: narrow the search.</p>`}
    ${load.data && html`<${Table} label="Events" columns=${COLUMNS} rows=${rows} id=${(e) => e.position} rowClass=${(e) => (bad(e) ? 'bad' : '')} empty="No event fits." />`}`;
}
