// What an instance waits for, in one sentence with its facts and what to do; the way to the child that is the cause. It is not polled.

import assert from 'node:assert/strict';
import { arrive, instance, pause, see } from './kit/actions.mjs';

export default async function scenario(stage) {
  const page = await stage.open(instance('order-1047'));
  await arrive(page, 'order-1047');
  const part = page.getByRole('region', { name: 'Explanation' });
  await part.getByText(/^Waits for .*approval/).waitFor();
  await part.getByRole('heading', { name: 'What to do next' }).waitFor();
  assert.match(await part.locator('.next-command code').first().innerText(), /^duroxide-lambda \w+ order-1047 approval/);
  await part.getByRole('button', { name: 'Copy this command' }).first().waitFor();
  await part.getByText(/facts/).click();
  await part.getByText('cause', { exact: true }).waitFor();
  await part.getByRole('button', { name: /^Send approval/ }).waitFor();
  await part.getByRole('link', { name: 'Show the step' }).click();
  await page.locator('[role=treeitem][aria-selected=true]').waitFor();

  // It waits for days: nothing is asked for again, unless a person wants it.
  const explained = () => stage.count('/v1/instances/order-1047/explain');
  const before = explained();
  assert.ok(before <= 2, `${before} requests`);
  await pause(5_000);
  assert.equal(explained(), before);
  await part.getByRole('button', { name: 'Explain again' }).click();
  await part.getByText(/^Waits for .*approval/).waitFor();
  assert.equal(explained(), before + 1);

  // A blocked one.
  await page.goto(`${stage.world.api}/${instance('import-1')}`);
  await arrive(page, 'import-1');
  await part.getByText(/import-catalogue/).first().waitFor();
  assert.equal(await part.getAttribute('data-tone'), 'warning');

  // From the parent to the child that is the cause.
  await page.goto(`${stage.world.api}/${instance('invoice-1')}`);
  await arrive(page, 'invoice-1');
  await part.getByRole('heading', { name: 'The way to the cause' }).waitFor();
  const links = part.getByRole('list').first().getByRole('link');
  assert.equal(await links.count(), 2);
  await part.getByText(/print-page/).first().waitFor();
  const child = await links.last().innerText();
  await links.last().click();
  await arrive(page, child);
  await part.getByText(/which no deployed worker has been able to run/).first().waitFor();

  // What has completed needs none; what has failed says what to do beside the reason.
  await page.goto(`${stage.world.api}/${instance('order-1041')}`);
  await arrive(page, 'order-1041');
  await see(page, '"outcome": "shipped"');
  assert.equal(await part.count(), 0);
  assert.equal(stage.count('/v1/instances/order-1041/explain'), 0);
  await page.goto(`${stage.world.api}/${instance('order-1045')}`);
  await see(page, 'Why it failed');
  await part.getByRole('heading', { name: 'What to do next' }).waitFor();
  assert.match(await part.locator('.next-command code').first().innerText(), /order-1045/);
}
