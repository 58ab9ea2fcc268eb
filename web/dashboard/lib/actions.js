// The actions on a server. Each action has its request, its policy rule, and the server states in which it is possible.
// The server's page and the list of servers both offer the actions.
import { post, remove } from './api.js';

/**
 * @typedef {{name: string, body?: any, rule: string, states?: string[], fits?: (server: any) => boolean, sure?: string, bulk?: boolean, danger?: boolean}} ServerAction
 */
const at = (id) => `compute/v2.1/servers/${id}`;
const RULE = 'os_compute_api:';

/** @type {ServerAction[]} */
export const ACTIONS = [
  { name: 'Start', body: { 'os-start': null }, rule: `${RULE}servers:start`, states: ['SHUTOFF'], bulk: true },
  { name: 'Stop', body: { 'os-stop': null }, rule: `${RULE}servers:stop`, states: ['ACTIVE', 'ERROR'], bulk: true },
  { name: 'Reboot', body: { reboot: { type: 'SOFT' } }, rule: `${RULE}servers:reboot`, states: ['ACTIVE'], bulk: true },
  { name: 'Hard reboot', body: { reboot: { type: 'HARD' } }, rule: `${RULE}servers:reboot`, states: ['ACTIVE', 'SHUTOFF', 'ERROR', 'PAUSED', 'SUSPENDED', 'HARD_REBOOT', 'REBOOT'] },
  { name: 'Pause', body: { pause: null }, rule: `${RULE}os-pause-server:pause`, states: ['ACTIVE'] },
  { name: 'Unpause', body: { unpause: null }, rule: `${RULE}os-pause-server:unpause`, states: ['PAUSED'] },
  { name: 'Suspend', body: { suspend: null }, rule: `${RULE}os-suspend-server:suspend`, states: ['ACTIVE'] },
  { name: 'Resume', body: { resume: null }, rule: `${RULE}os-suspend-server:resume`, states: ['SUSPENDED'] },
  { name: 'Shelve', body: { shelve: null }, rule: `${RULE}os-shelve:shelve`, states: ['ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED'] },
  { name: 'Unshelve', body: { unshelve: null }, rule: `${RULE}os-shelve:unshelve`, states: ['SHELVED', 'SHELVED_OFFLOADED'] },
  { name: 'Lock', body: { lock: null }, rule: `${RULE}os-lock-server:lock`, fits: (server) => !server.locked },
  { name: 'Unlock', body: { unlock: null }, rule: `${RULE}os-lock-server:unlock`, fits: (server) => server.locked },
  { name: 'Confirm resize', body: { confirmResize: null }, rule: `${RULE}servers:confirm_resize`, states: ['VERIFY_RESIZE'] },
  { name: 'Revert resize', body: { revertResize: null }, rule: `${RULE}servers:revert_resize`, states: ['VERIFY_RESIZE'] },
  { name: 'Migrate live', body: { 'os-migrateLive': { host: null, block_migration: 'auto' } }, rule: `${RULE}os-migrate-server:migrate_live`, states: ['ACTIVE', 'PAUSED'], sure: 'Move the running server to another host?', bulk: true },
  { name: 'Delete', rule: `${RULE}servers:delete`, sure: 'Delete the server? Its disks that are no volumes are lost.', danger: true, bulk: true },
];

/** Requests an action on one server. */
export const act = (action, id) => (action.body ? post(`${at(id)}/action`, action.body) : remove(at(id)));

/** Whether the action fits the server's state. */
export const fits = (action, server) => (!action.states || action.states.includes(server.status)) && (!action.fits || action.fits(server));
