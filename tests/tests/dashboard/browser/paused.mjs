// An instance is paused with its children and a reason, is seen so everywhere, and is resumed.

import assert from 'node:assert/strict';
import { arrive, call, instance, see, until } from './kit/actions.mjs';

const ID = 'invoice-1';

export default async function scenario(stage) {
  const page = await stage.open(instance(ID));
  await arrive(page, ID);
  const status = (text) => until(`it is ${text}`, async () => (await page.locator('.inst-status').innerText()).includes(text));
  await status('Running');

  // Nothing happens without an answer to the question.
  await page.getByRole('button', { name: 'Pause…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Pause this instance?' });
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.ok(stage.requests.every(({ method }) => method === 'GET'));

  await page.getByRole('button', { name: 'Pause…' }).click();
  await dialog.getByLabel('Reason').fill('the printer is on fire');
  await dialog.getByLabel('Also all its children').check();
  await dialog.getByRole('button', { name: 'Pause', exact: true }).click();
  await see(page, '2 instances paused.');
  await status('Paused');
  const part = page.getByRole('region', { name: 'Explanation' });
  await part.getByText(/printer is on fire/).first().waitFor();
  assert.equal(await part.getAttribute('data-tone'), 'paused');

  await page.goto(`${stage.world.api}/#/`);
  await page.getByRole('link', { name: /2\s*Paused/ }).click();
  await arrive(page, 'Instances');
  const results = page.getByRole('region', { name: 'Results' });
  await results.getByRole('link', { name: ID, exact: true }).waitFor();
  await until('both are listed', async () => (await results.getByRole('row').count()) === 3);
  await see(page, 'the printer is on fire');
  await results.getByRole('link', { name: ID, exact: true }).click();

  await part.getByRole('button', { name: 'Resume…' }).click();
  const question = page.getByRole('dialog', { name: 'Resume this instance?' });
  await question.getByLabel(/Also all its children/).check();
  await question.getByRole('button', { name: 'Resume', exact: true }).click();
  await see(page, '2 instances resumed.');
  await status('Running');
  const { instances } = await call(stage.world, 'GET', '/v1/instances?status=Paused');
  assert.deepEqual(instances, []);
}
