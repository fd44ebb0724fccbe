// Filters are in the address: reload, back and a shared link keep them.

import assert from 'node:assert/strict';
import { arrive, fulfil, see, until } from './kit/actions.mjs';

export default async function scenario(stage) {
  await fulfil(stage.world, 'filter-shipped');
  await fulfil(stage.world, 'filter-declined', { customer: 'declined' });
  const page = await stage.open('#/instances');
  await arrive(page, 'Instances');
  const results = page.getByRole('region', { name: 'Results' });
  const row = (id) => results.getByRole('link', { name: id, exact: true });
  await row('filter-shipped').waitFor();

  await page.getByLabel('Id begins with').fill('filter-sh');
  await page.keyboard.press('Enter');
  await until('the address has the prefix', () => page.url().includes('prefix=filter-sh'));
  await row('filter-shipped').waitFor();
  await row('filter-declined').waitFor({ state: 'detached' });
  await page.getByLabel('Tag').fill('customer:ada');
  await page.keyboard.press('Enter');
  await until('the address has the tag', () => page.url().includes('tag=customer%3Aada'));
  await row('filter-shipped').waitFor();

  await page.reload();
  await row('filter-shipped').waitFor();
  assert.equal(await page.getByLabel('Id begins with').inputValue(), 'filter-sh');
  await page.getByRole('button', { name: /customer:ada/ }).waitFor();

  await row('filter-shipped').click();
  await arrive(page, 'filter-shipped');
  await page.goBack();
  await row('filter-shipped').waitFor();
  assert.equal(await page.getByLabel('Id begins with').inputValue(), 'filter-sh');
  await page.goBack();
  await until('the tag is gone', () => !page.url().includes('tag='));
  await page.goBack();
  await row('filter-declined').waitFor();
  assert.equal(await page.getByLabel('Id begins with').inputValue(), '');
  await page.goForward();
  await row('filter-declined').waitFor({ state: 'detached' });

  // A filter that matches nothing says so, names itself, and can be cleared.
  await page.getByLabel('Id begins with').fill('no-such-id');
  await page.keyboard.press('Enter');
  await see(page, 'No instance matches these filters');
  await results.getByRole('link', { name: 'Clear all filters' }).click();
  await row('filter-declined').waitFor();

  // What is not a tag is not sent.
  await page.getByLabel('Tag').fill('customer');
  await page.keyboard.press('Enter');
  await see(page, 'Write a tag as name:value');
}
