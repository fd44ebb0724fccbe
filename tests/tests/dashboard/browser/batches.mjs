// Orders are found by filters, and a batch acts on all of them: a dry run first, a question, progress, failures with links, the list of batches,
// and the cancellation of one that is slow.

import assert from 'node:assert/strict';
import { arrive, call, order, see, until } from './kit/actions.mjs';

const PREFIX = `bulk-${Date.now()}-`;
/** So many that a batch of one a second lasts longer than a click takes on a slow machine. */
const COUNT = 15;
const IDS = Array.from({ length: COUNT }, (_, index) => `${PREFIX}${index}`);
const found = (world, query) => call(world, 'GET', `/v1/instances?prefix=${PREFIX}&limit=100&${query}`).then(({ instances }) => instances.length);

export default async function scenario(stage) {
  const { world } = stage;
  // Those that cost much wait for an approval.
  for (const id of IDS) await call(world, 'POST', '/v1/orchestrations/fulfil-order/instances', { id, input: order(id, { total_cents: 250_000 }), tags: { kind: 'bulk' } });
  await until('they run', async () => (await found(world, 'status=Running')) === COUNT);

  const page = await stage.open(`#/instances?prefix=${PREFIX}&tag=kind:bulk`);
  await arrive(page, 'Instances');
  await page.getByRole('button', { name: 'Act on all that match…' }).click();
  await arrive(page, 'Act on many instances');
  await see(page, `id begins with: ${PREFIX}`);
  await see(page, 'tag: kind:bulk');
  const action = page.getByLabel('Action');
  const dryRun = page.getByRole('button', { name: 'Dry run' });
  const fact = (name) => page.locator('.facts div').filter({ has: page.getByText(name, { exact: true }) }).locator('dd').first().innerText();

  // A form with a mistake sends nothing.
  await action.selectOption('raise');
  await dryRun.click();
  await see(page, 'Give the name that the workflows wait for.');
  await page.getByLabel('Instances a second, at most').fill('0');
  await dryRun.click();
  await see(page, 'A whole number from 1 to 500.');
  await page.getByLabel('Instances a second, at most').fill('100');
  assert.ok(stage.requests.every(({ method }) => method === 'GET'));

  await action.selectOption('pause');
  await page.getByLabel('Reason').fill('wrong prices');
  await dryRun.click();
  const start = page.getByRole('button', { name: `Pause ${COUNT} instances…` });
  await start.waitFor();
  assert.equal(await fact('Would change'), String(COUNT));
  await page.getByRole('cell', { name: `${PREFIX}${COUNT - 1}` }).waitFor();
  assert.equal(await found(world, 'status=Paused'), 0, 'a dry run changes nothing');
  // What is started is what the dry run has shown: another form needs another one.
  await page.getByLabel('Reason').fill('wrong prices of pianos');
  await start.waitFor({ state: 'detached' });
  await dryRun.click();
  await start.click();
  const question = page.getByRole('dialog', { name: `Pause ${COUNT} instances?` });
  await question.getByRole('button', { name: 'Pause', exact: true }).click();
  await arrive(page, 'Pause many instances');
  await until('it has completed', async () => (await page.getByRole('region', { name: 'Progress' }).innerText()).includes('Completed'));
  assert.equal(await fact('Changed'), String(COUNT));
  assert.equal(await found(world, 'status=Paused'), COUNT);
  assert.equal(await page.getByRole('button', { name: /^Cancel the batch/ }).getAttribute('aria-disabled'), 'true');

  // Those that refuse are named, and nothing can be started that would change nothing.
  await page.goto(`${world.api}/#/batches/new?prefix=${PREFIX}`);
  await action.selectOption('delete');
  await dryRun.click();
  const nothing = page.getByRole('button', { name: /^Delete 0 instances…/ });
  await nothing.waitFor();
  assert.match(await nothing.innerText(), /Nothing would change/);
  const refused = page.getByRole('table', { name: 'Instances that failed in this batch' });
  await refused.getByRole('link', { name: `${PREFIX}0`, exact: true }).waitFor();

  // A slow one is cancelled. What it had done stays done.
  await action.selectOption('resume');
  await page.getByLabel('Instances a second, at most').fill('1');
  await dryRun.click();
  await page.getByRole('button', { name: `Resume ${COUNT} instances…` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Resume', exact: true }).click();
  await arrive(page, 'Resume many instances');
  await page.getByRole('button', { name: 'Cancel the batch…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the batch' }).click();
  await until('it is cancelled', async () => (await page.getByRole('region', { name: 'Progress' }).innerText()).includes('Cancelled'));
  assert.ok(await found(world, 'status=Paused') > 0);

  await page.getByRole('link', { name: 'Batches' }).first().click();
  await arrive(page, 'Batches');
  const list = page.getByRole('region', { name: 'Results' });
  const row = list.getByRole('row').filter({ hasText: 'Pause many instances' }).filter({ hasNotText: 'dry run' }).first();
  assert.match(await row.innerText(), new RegExp(PREFIX));
  await row.getByRole('link', { name: 'Pause many instances' }).click();
  await arrive(page, 'Pause many instances');

  // What a batch cannot search for, it does not offer.
  await page.goto(`${world.api}/#/instances?attention=true`);
  const act = page.getByRole('button', { name: /^Act on all that match/ });
  await act.waitFor();
  assert.equal(await act.getAttribute('aria-disabled'), 'true');
}
