// From the overview to the reason of a failed order: it is there without a click, and complete after one.

import assert from 'node:assert/strict';
import { arrive, fulfil, see } from './kit/actions.mjs';

const ID = 'order-that-failed';

export default async function scenario(stage) {
  const failed = await fulfil(stage.world, ID, { customer: 'unrefundable', retry_delay_ms: 10, parcels: [{ address: '12 Mill Lane' }, { address: 'nowhere' }] });
  assert.equal(failed.status, 'Failed');
  const reason = failed.error.slice(0, 60);

  const page = await stage.open();
  await arrive(page, 'Overview');
  await see(page, reason);
  await page.getByRole('link', { name: ID, exact: true }).first().click();
  await arrive(page, ID);
  await see(page, 'Why it failed');
  await page.getByText(failed.error).first().waitFor();
  // The step that has failed is one more click away.
  await page.locator('.inst-error').getByRole('link').first().click();
  await see(page, /refund-card/);

  // The same by the numbers: the list of those that failed, then the instance.
  await page.goto(`${stage.world.api}/#/`);
  await page.getByRole('link', { name: /failed in the last 24 hours/ }).click();
  await arrive(page, 'Instances');
  await page.getByRole('link', { name: ID, exact: true }).click();
  await see(page, 'Why it failed');
}
