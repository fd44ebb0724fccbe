// A rewind is offered where the explanation advises it, and shows what would happen before it does. What an instance has used is shown if the
// API counts it. The answers are made here, as the types of the API describe them.

import assert from 'node:assert/strict';
import { arrive, see } from './kit/actions.mjs';

const ID = 'order-1045';
const STEP = { kind: 'activity', event: 7, name: 'refund-card', failures: 1 };

export default async function scenario(stage) {
  const page = await stage.open(null);
  const sent = [];
  await page.route(`**/v1/instances/${ID}/explain`, async (route) => {
    const answer = await (await route.fetch()).json();
    const next = [{ text: 'Rewind it.', command: `duroxide-lambda rewind ${ID}` }, ...answer.next];
    await route.fulfill({ json: { ...answer, next } });
  });
  await page.route(`**/v1/instances/${ID}?*`, async (route) => {
    const fetched = await route.fetch();
    if (fetched.status() !== 200) return route.fulfill({ response: fetched });
    const usage = {
      turns: 12, activities: 9, attempts: 11, wakeups: 20, requests: 61, requestUnits: 412.34, bytesRead: 20_480, bytesWritten: 40_960, turnSeconds: 0.4,
      activitySeconds: 1.5, elapsedSeconds: 3, waitingSeconds: 1.1,
    };
    return route.fulfill({ response: fetched, json: { ...await fetched.json(), usage } });
  });
  await page.route(`**/v1/instances/${ID}:rewind`, async (route) => {
    const request = route.request().postDataJSON();
    sent.push(request);
    const none = { delivered: [], timers: [], children: [], keptFailures: [] };
    const activities = request.discardResults ? [STEP, { ...STEP, name: 'charge-card' }] : [STEP];
    await route.fulfill({ status: 202, json: { instance: ID, dryRun: request.dryRun ?? false, execution: 1, before: 14, kept: 13, undone: 6, activities, reused: [], ...none } });
  });
  await page.goto(`${stage.world.api}/#/instances/${ID}`);
  await arrive(page, ID);
  await page.getByText('What it has used').click();
  await see(page, '9 in 11 attempts');

  await page.getByRole('button', { name: 'Rewind…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Rewind this instance?' });
  await dialog.getByText('6 events from event 14 on would be undone, 13 events kept.').waitFor();
  await dialog.getByLabel(/Run activities again/).check();
  await dialog.getByText('charge-card').waitFor();
  assert.ok(sent.every(({ dryRun }) => dryRun), 'nothing but dry runs yet');
  await dialog.getByLabel('Reason').fill('the bank is back');
  await dialog.getByRole('button', { name: 'Rewind', exact: true }).click();
  await see(page, 'Rewound: 6 events undone.');
  assert.deepEqual(sent.at(-1), { discardResults: true, reason: 'the bank is back' });
  await page.unrouteAll({ behavior: 'ignoreErrors' });
}
