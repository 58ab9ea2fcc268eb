// Scheduling decisions in pictures: how many hosts each filter left, and the weights of the best hosts.
import { html } from '../lib/html.js';
import { get } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Badge, Gauge, Trouble, time } from '../lib/ui.js';

const weight = (number) => (number > 0 ? `+${number.toFixed(2)}` : number.toFixed(2));

function Weights({ weighed, chosen }) {
  const parts = [...new Set(weighed.flatMap((host) => host.weighers.map((part) => part.weigher)))];
  const of = (host, name) => host.weighers.find((part) => part.weigher === name);
  return html`<h3>Weights of the best hosts</h3><div class="table short" tabindex="0" role="region" aria-label="Weights"><table class="weights"><thead><tr><th scope="col">Host</th><th scope="col" class="right">Weight</th>
    ${parts.map((name) => html`<th scope="col" class="right">${name}</th>`)}</tr></thead>
    <tbody>${weighed.map((host) => html`<tr class=${host.host === chosen ? 'chosen' : ''}><td>${host.host}${host.host === chosen ? html` <span class="quiet">chosen</span>` : ''}</td><td class="right"><b>${host.weight.toFixed(2)}</b></td>
      ${parts.map((name) => { const part = of(host, name); return html`<td class="right">${part && html`${weight(part.weight)} <span class="quiet">(${part.value})</span>`}</td>`; })}</tr>`)}</tbody></table></div>`;
}

/** One decision: the funnel of filters, the weights, and the result. */
export function Decision({ decision, title }) {
  const { checks = [], weighed = [], hosts, resources = {}, required = [], chosen, alternates = [], lacks, lost = [] } = decision;
  return html`<section class="sheet decision" aria-label=${title}>
    <div class="row"><h2>${title}</h2>${chosen ? html`<${Badge}>ok<//> <span>goes to <b>${chosen}</b>${alternates.length > 0 && html` <span class="quiet">then ${alternates.join(', ')}</span>`}</span>`
      : html`<${Badge}>failed<//> <span>goes nowhere${lacks && `: ${lacks}`}</span>`}</div>
    <p class="quiet">It wants ${Object.entries(resources).map(([name, amount]) => `${name} ${amount}`).join(', ') || 'nothing'}${required.length > 0 && `; it requires ${required.join(', ')}`}.</p>
    <ol class="funnel"><li><span>All hosts</span><span class="right">${hosts}</span><${Gauge} used=${hosts} total=${hosts} /></li>
      ${checks.map((check) => html`<li><span>${check.name}</span><span class="right">${check.left}</span><${Gauge} used=${check.left} total=${hosts} />
        ${check.refused.length > 0 && html`<p class="why">${check.refused.map((one) => html`<div><b>${one.host}</b>: ${one.reason}</div>`)}</p>`}</li>`)}</ol>
    ${weighed.length > 0 && html`<${Weights} weighed=${weighed} chosen=${chosen} />`}
    ${lost.length > 0 && html`<h3>Hosts that were lost to other servers meanwhile</h3><ul>${lost.map((one) => html`<li><b>${one.host}</b>: ${one.reason}</li>`)}</ul>`}
  </section>`;
}

/** Every decision on a server, newest first. */
export function Decisions({ id }) {
  const load = useLoad((signal) => get(`compute/v2.1/servers/${id}/chronova:scheduling`, { signal }).then((body) => body['chronova:scheduling'].decisions), ['decisions', id]);
  return html`<${Trouble} load=${load} what="server" />
    ${load.data?.length === 0 && html`<p class="quiet">The scheduler has decided nothing about it.</p>`}
    ${load.data?.slice().reverse().map((decision) => html`<${Decision} decision=${decision} title=${`${time(decision.at)}, attempt ${decision.attempt}`} />`)}`;
}
