// The rights of the viewer. The dashboard asks for them once, after the log-in. The rights only decide what the pages
// offer: the server checks each request.
import { get, permissions } from './api.js';
import { ACTIONS } from './actions.js';
import { PAGES } from '../pages.js';

/** Rules that pages name, beside those of the actions. */
const RULES = {
  past: 'os_compute_api:chronova:as_of',
  all: 'os_compute_api:servers:detail:get_all_tenants',
  audit: 'chronova:events:list',
  changes: 'chronova:changes:list',
  hosts: 'chronova:hosts:show',
  drain: 'chronova:hosts:drain',
  maintenance: 'chronova:hosts:maintenance',
  services: 'os_compute_api:os-services:update',
  scheduling: 'os_compute_api:os-extended-server-attributes',
  whatif: 'chronova:scheduler:what_if',
  create: 'os_compute_api:servers:create',
  abort: 'os_compute_api:servers:migrations:delete',
  consoles: 'os_compute_api:os-remote-consoles',
  output: 'os_compute_api:os-console-output',
  attach: 'os_compute_api:os-volumes-attachments:create',
  detach: 'os_compute_api:os-volumes-attachments:delete',
  flavors: 'os_compute_api:os-flavor-manage:create',
  quotas: 'os_compute_api:os-quota-sets:update',
};

/** The viewer's rights, by the names above, by the names of pages, and (in `rules`) by the rules themselves. */
export async function rightsOf(token) {
  const rules = [...new Set([...Object.values(RULES), ...ACTIONS.map((action) => action.rule), ...PAGES.flatMap((page) => page.rule || [])])];
  const probes = PAGES.filter((page) => page.probe).map((page) => [page.name, ...(page.probe || [])]);
  const target = `chronova/v1/permissions?${rules.map((rule) => `rule=${encodeURIComponent(rule)}`).join('&')}`;
  const [held, probed] = await Promise.all([get(target, { token }).then((body) => body.permissions), permissions(probes, token)]);
  const named = Object.fromEntries(Object.entries(RULES).map(([name, rule]) => [name, held[rule]]));
  const pages = Object.fromEntries(PAGES.map((page) => [page.name, page.rule ? held[page.rule] : page.probe ? probed[page.name] : true]));
  return { ...pages, ...named, rules: held };
}
