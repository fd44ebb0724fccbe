// An order is started by the form. Its timeline grows while it runs; it is approved from the page, and ends as completed.

import assert from 'node:assert/strict';
import { arrive, order, see, step, until } from './kit/actions.mjs';

const ID = 'order-of-the-form';

export default async function scenario(stage) {
  const page = await stage.open();
  await arrive(page, 'Overview');
  await page.getByRole('link', { name: 'Start', exact: true }).click();
  await arrive(page, 'Start an instance');
  const start = page.getByRole('button', { name: 'Start', exact: true });
  await page.getByLabel('Orchestration').fill('fulfil-order');
  await page.getByLabel('Instance id').fill(ID);

  // A mistake in the JSON is shown with its place, and nothing is sent.
  await page.getByLabel('Input').fill('{"id": "order-of-the-form",\n "customer": }');
  await start.click();
  await see(page, /Not JSON: line 2, column 14/);
  assert.ok(stage.requests.every(({ method }) => method === 'GET'));

  await page.getByLabel('Input').fill(JSON.stringify(order(ID, { total_cents: 250_000 })));
  await page.getByRole('button', { name: 'Add a tag' }).click();
  await page.getByLabel('Name of a tag').fill('customer');
  await page.getByLabel('Value of the tag').fill('ada');
  await start.click();
  await arrive(page, ID);

  // Live: no reload from here on.
  let loads = 0;
  page.on('load', () => { loads += 1; });
  const rows = page.getByRole('treeitem');
  await step(page, 'charge-card', 'activity, completed').waitFor();
  await step(page, 'approval', 'wait for message, waiting').waitFor();
  const before = await rows.count();
  await see(page, 'awaiting-approval');
  await page.getByRole('button', { name: /^Send approval/ }).click();
  const dialog = page.getByRole('dialog', { name: 'Send an event or a message' });
  assert.equal(await dialog.getByLabel('Name', { exact: true }).inputValue(), 'approval');
  assert.equal(await dialog.getByLabel('Send', { exact: true }).inputValue(), 'queues');
  await dialog.getByLabel('Data').fill('{"approved": true, "by": "grace"}');
  await dialog.getByRole('button', { name: 'Send', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await step(page, 'approval', 'wait for message, received').waitFor();
  await step(page, '.*parcel.*', 'child').waitFor();
  await until('it has ended', async () => (await page.locator('.badge').first().innerText()).includes('Completed'));
  assert.ok(await rows.count() > before, 'the timeline has grown');
  assert.equal(loads, 0);
  await see(page, '"outcome": "shipped"');

  // The other tabs have what belongs to it.
  await page.getByRole('link', { name: 'Events', exact: true }).click();
  await see(page, /ActivityScheduled|Activity scheduled/);
  await page.getByRole('link', { name: 'Tree', exact: true }).click();
  await page.getByRole('link', { name: `${ID}::sub::parcel-1` }).waitFor();
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await see(page, 'reservation');
  await page.getByRole('link', { name: 'Executions', exact: true }).click();
  await see(page, 'Completed');
}
